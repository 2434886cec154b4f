"""Both servers are asked for the set, in the same ways."""

from __future__ import annotations

import httpx

from serving.embeddings.gate.ask import TIMEOUT_S, Asker, Party
from serving.embeddings.gate.judge import Said, Verdict, judge
from serving.embeddings.gate.texts import TEXTS


async def compare(reference: Party, candidate: Party, *, least: float) -> Verdict:
    """Ask both and judge. Raises Unusable where one does not answer."""
    # trust_env: a proxy of the user's shell must not stand between us and a server on the LAN.
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        said = [await _said(Asker(client, party)) for party in (reference, candidate)]
    return judge([text.name for text in TEXTS], said[0], said[1], least=least)


async def _said(asker: Asker) -> Said:
    texts = [each.text for each in TEXTS]
    return Said(
        batch=await asker.embed(texts),
        backwards=await asker.embed(texts[::-1]),
        singles=tuple([await asker.embed([text]) for text in texts]),
    )
