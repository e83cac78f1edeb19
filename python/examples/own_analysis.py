"""An analysis of one's own in NumPy: how many pages does each thousand references touch?"""

import sys

import numpy

import pagewalk

for batch in pagewalk.Trace(sys.argv[1]).batches(rows=1000):
    pages = numpy.unique(numpy.asarray(batch.address) >> 12)
    print(len(batch), "references,", pages.size, "pages")
