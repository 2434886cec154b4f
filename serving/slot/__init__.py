"""One slot, many models: `state.py` and its like decide, the rest acts.

Start reading at `serve.py`; `docs/slot.md` is the page for operators.
"""
