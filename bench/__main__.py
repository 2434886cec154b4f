"""`python -m bench` is bench/compare.py."""

import sys

from bench.compare import main

sys.exit(main())
