"""`tenant-audit lab prove`: the bad and the good example of a rule's page, run on a real server."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import UserError
from auditor.lab.place import WORKER, Place
from auditor.lab.server import MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from auditor.lab.server import Server
    from auditor.lab.stage import Proof
    from auditor.packs import LoadedRule
    from auditor.pages import Example

#: Seconds after which a scene that has not ended never will.
_PATIENCE = 120.0
#: Where examples have their database.
_DATABASE = '"dbname=app"'


@dataclass(frozen=True)
class Proven:
    """What the examples of a rule have shown."""

    rule: LoadedRule
    proof: Proof
    bad: Mapping[str, Any]
    good: Mapping[str, Any]

    @property
    def holds(self) -> bool:
        return dict(self.proof.bad_shows) == dict(self.bad) and dict(self.proof.good_shows) == dict(self.good)

    @property
    def verdict(self) -> str:
        if self.holds:
            return "holds"
        expected = json.dumps({"bad": dict(self.proof.bad_shows), "good": dict(self.proof.good_shows)})
        return f"differs: expected {expected}"

    def as_data(self) -> dict[str, Any]:
        return {
            "code": self.rule.rule.code,
            "holds": self.holds,
            "verdict": self.verdict,
            "bad": {"example": self.proof.bad, **self.bad},
            "good": {"example": self.proof.good, **self.good},
        }


def proof_file(rule: LoadedRule) -> Path:
    """Where the proof of a rule stands, if it has one."""
    return Path(rule.module).parent / "proofs" / Path(rule.module).name


def provable(words: Sequence[str]) -> list[LoadedRule]:
    """The rules of these codes and names that have a proof; all of them for none, or for "all"."""
    from auditor.packs import find, load_packs, own_pack

    loaded = load_packs([own_pack()])
    chosen = list(loaded) if not words or "all" in words else find(words, loaded, "lab prove")
    with_proof = [rule for rule in chosen if proof_file(rule).is_file()]
    if not with_proof:
        raise UserError(f"{chosen[0].rule.code} speaks of nothing that happens on a server: there is nothing to prove")
    return with_proof


def prove(rules: Sequence[LoadedRule], server: Server, say: Callable[[str], None]) -> Iterator[Proven]:
    """Run the examples of each rule in places of their own on the server."""
    from auditor.lab.stage import load
    from auditor.pages import examples

    for rule in rules:
        say(f"{rule.rule.code}: {rule.rule.name}")
        proof = load(proof_file(rule))
        known = examples(rule.page)
        bad, good = (
            _play(server, rule, proof, _example(known, title, which == "good"), which)
            for which, title in (("bad", proof.bad), ("good", proof.good))
        )
        yield Proven(rule, proof, bad, good)


def _example(known: Sequence[Example], title: str, good: bool) -> Example:
    found = next((one for one in known if one.good is good and one.title == title), None)
    assert found is not None, f"the page has no {'good' if good else 'bad'} example {title!r}"
    return found


def _play(server: Server, rule: LoadedRule, proof: Proof, example: Example, which: str) -> dict[str, Any]:
    """What a scene shows."""
    place = Place(server.dsn, full=False, seed=1)
    place.prepare()
    try:
        _build(place, proof, example)
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), place, example)
            command = [sys.executable, "-m", "auditor.lab.stage", str(proof_file(rule).resolve()), which]
            told = json.dumps({"admin": place.session(), "worker": place.worker_dsn})
            try:
                done = subprocess.run(
                    command, cwd=folder, input=told, capture_output=True, text=True, timeout=_PATIENCE, check=False
                )
            except subprocess.TimeoutExpired as error:
                raise UserError(f"{rule.rule.code}: the {which} example did not end within two minutes") from error
    finally:
        place.remove()
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it does not say why")
        raise UserError(f"{rule.rule.code}: the {which} example could not be run: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _build(place: Place, proof: Proof, example: Example) -> None:
    """The proof's tables, then what the example defines itself."""
    with place.admin() as admin:
        admin.execute(f"DROP TABLE {MARKER}.invoices, {MARKER}.jobs, {MARKER}.job_runs")
        schema = proof.good_schema if example.good and proof.good_schema is not None else proof.schema
        for text in (schema, *(text for name, text in example.files.items() if name.endswith(".sql"))):
            admin.execute(text.encode())
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {MARKER} TO {WORKER}")
        admin.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {MARKER} TO {WORKER}")


def _write(folder: Path, place: Place, example: Example) -> None:
    for name, text in example.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(_DATABASE, repr(place.worker_dsn)), encoding="utf-8")
