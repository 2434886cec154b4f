"""The test of the real systemd where that is installed."""

from __future__ import annotations

import shutil

# Without them, what test_units.py reads out of the files is what can be held.
collect_ignore = [] if shutil.which("systemd-analyze") else ["test_real_systemd.py"]
