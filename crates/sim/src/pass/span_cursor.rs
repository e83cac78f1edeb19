//! The spans that made data references.

use pagewalk_trace::Span;
use std::ops::Range;

/// Finds the span that made a data reference. Those asked for mostly come in order, so that it goes on from the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanCursor {
    at: usize,
    of: Range<usize>,
}

impl SpanCursor {
    /// Other spans come.
    pub fn begin(&mut self, of: Range<usize>) {
        (self.at, self.of) = (of.start, of);
    }

    /// The span that made this data reference of the batch, which has these spans.
    #[inline]
    pub fn span_of(&mut self, spans: &[Span], data: usize) -> usize {
        let spans = &spans[..self.of.end];
        let begins_before = |span: &Span| span.first as usize <= data;
        if !begins_before(&spans[self.at]) {
            let earlier = &spans[self.of.start..self.at];
            self.at = self.of.start + earlier.partition_point(begins_before).saturating_sub(1);
        }
        // Those without references end where they begin.
        while spans.get(self.at + 1).is_some_and(begins_before) {
            self.at += 1;
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_units::BlockId;
    use proptest::prelude::*;

    proptest! {
        /// In any order, and among spans without references.
        #[test]
        fn it_finds_each_references_span(
            before in 0..4_usize,
            references in prop::collection::vec(0..5_usize, 1..40),
            asked in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let mut by_span = Vec::new();
            let mut spans = Vec::new();
            for (number, &count) in references.iter().enumerate() {
                spans.push(Span { block: BlockId(0), first: by_span.len() as u32 });
                by_span.extend(vec![number; count]);
            }
            let of = before.min(spans.len() - 1)..spans.len();
            let own: Vec<usize> = (0..by_span.len()).filter(|&data| of.contains(&by_span[data])).collect();
            let mut cursor = SpanCursor::default();
            cursor.begin(of);
            for index in asked.iter().filter(|_| !own.is_empty()) {
                let data = *index.get(&own);
                prop_assert_eq!(cursor.span_of(&spans, data), by_span[data]);
            }
        }
    }
}
