"""Engines for detection find what motet finds, and both what the oracle finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments import detection_peers as peers
from benchmarks.peers.detection_questions import RISING, DetectionQuestion, Sequence3, make_events
from motet.language import parse
from motet.reference.tables import run_table as enumerate_table

SMALL = {
    "seq": Sequence3((0, 1, 2), 60),
    "not": Sequence3((0, 1, 2), 90, kind="not"),
    "kleene": Sequence3((0, 1, 2), 90, RISING[:1], kind="kleene"),
    "kleene-any": Sequence3((0, 1, 2), 90, (), kind="kleene-any"),
}


@pytest.mark.parametrize("kind", SMALL)
def test_motet_is_asked_what_the_oracle_answers(kind: str) -> None:
    question, events = DetectionQuestion(kind, (SMALL[kind],), 300, 300), make_events(300)
    answer = peers.add_up(peers.run_motet(question, events))
    assert answer == peers.add_up([enumerate_table(parse(question.text()), events)])
    assert answer[0] > 0


def test_a_checksum_tells_queries_and_events_apart() -> None:
    events = make_events(2_000)
    answers = {
        peers.add_up(peers.run_motet(DetectionQuestion("", queries, 0, 0), events))
        for queries in ((SMALL["seq"],), (SMALL["seq"], SMALL["not"]), (SMALL["not"], SMALL["seq"]))
    }
    assert len(answers) == 3


@pytest.mark.parametrize("peer", peers.PEERS, ids=lambda peer: peer.title)
def test_a_peer_finds_the_same_matches(peer: peers.DetectionPeer, tmp_path: Path) -> None:
    if not peer.is_installed():
        pytest.skip("peers are not installed: make peers")
    classes = peers.compile_peer(peer, tmp_path)
    events = make_events(1_500)
    for kind in peer.kinds:
        question = DetectionQuestion(kind, (SMALL[kind],), 0, 0)
        peers.write_question(question, events, tmp_path)
        found, seconds, _, why = peers.ask_peer(peer, classes, tmp_path, 1)
        assert why == ""
        wanted = peers.add_up(peers.run_motet(question, events))
        assert found is not None
        assert found[0] > wanted[0] if peer.more else found == wanted
        assert len(seconds) == 1
