"""The embedding server: the CPU query lane, and the gate before an embedder is exchanged.

The contract of both lanes: raw text without a prefix, left padding with position ids that know it,
exactly one terminal token, the last token's vector, L2-normalised, float32. Each part was once done
wrong somewhere and gave vectors of the right shape that found the wrong documents: `gate/` is how
that shows.

A request's way, and the files to read in order:

    app.py        HTTP: who asks, how much, what is answered when
    request.py    the body -> Request, or a refusal that says what to do
    tokens.py     text or ids -> one row of ids, with the terminal token exactly once
    lane.py       rows wait here; one pass of the model at a time
    passes.py     which rows make up the next pass, and how long a short one may wait: pure
    encoder.py    what a model must do; causal.py (torch) and minilm.py (onnxruntime) do it
    answer.py     vectors -> JSON

It stands alone: it imports neither the gateway nor the rest of serving but `artifacts`.
"""
