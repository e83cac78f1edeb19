#!/bin/bash
# Makes the environment in which the tests of the Python package run, in the target folder, if it is not there yet.
set -euo pipefail

script=${BASH_SOURCE[0]}
root=$(cd "${script%/*}/.." && pwd)
environment=${CARGO_TARGET_DIR:-$root/target}/python
wanted=$root/python/tests/requirements.txt
[[ $environment/installed -nt $wanted ]] && exit
python3 -m venv --clear "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
touch "$environment/installed"
