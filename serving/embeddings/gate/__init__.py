"""The gate before an exchange: may this embedding server take that one's place.

A server that takes the wrong token's vector, or pads wrongly, answers with vectors of the right
shape, and nothing but worse retrieval shows it. So both are asked for the same texts, of lengths
that differ within one batch, and the vectors must agree. `texts.py` is what is asked, `judge.py`
decides, `table.py` prints.
"""
