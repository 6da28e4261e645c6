"""Where a metadata block begins and ends, and what kind of thing it is.

Families: a fence that is missing, wrong, or looks like a rule of the body; a block that holds no
keys; a block in another style than YAML; a block that grows without end, or asks for code to run;
keys inside other keys. The body is found, no text of the author's is lost, and whatever was not
read is in the load report.
"""

import json
from pathlib import Path

import pytest
from case_builders import BODY, HASH, Ask, Build, sources, warned

from lookup_tool import KnowledgeBase


def text_of(knowledge: KnowledgeBase, source: str = "a.md") -> str:
    """Return every title, heading and text of an entry that can be found."""
    passages = knowledge.read(source).passages
    return "\n".join("\n".join([*passage.breadcrumb, passage.text]) for passage in passages)


RULES = (
    "---\ntitle: Travel\n---\nBook early.\n\n---\n\nTrains beat planes under 600 km.\n\n---\n\n"
    "Keep receipts.\n"
)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("trains or planes", "Trains beat planes under 600 km."),
        ("receipts", "Keep receipts."),
        ("when to book early for travel", "Book early."),
    ],
)
def test_b_14_text_between_rules_is_found(build: Build, ask: Ask, query: str, said: str) -> None:
    knowledge = build({"a.md": RULES})

    blocks = ask(knowledge, query).evidence_blocks

    assert [said in block.content for block in blocks] == [True]
    assert (knowledge.read("a.md").metadata, warned(knowledge)) == ({}, set())


@pytest.mark.parametrize("rule", ["---", "***", "___", "- - -", "-----", "...", "+++", "--- yaml"])
@pytest.mark.parametrize("head", ["---\ntitle: T\n---\n", '+++\ntitle = "T"\n+++\n', ""])
def test_no_rule_of_the_body_is_a_fence(build: Build, head: str, rule: str) -> None:
    body = f"Book early.\n\n{rule}\n\nnote: by train\n\n{rule}\n\nKeep receipts."
    knowledge = build({"a.md": f"{head}{body}"}, HASH)

    assert all(part in text_of(knowledge) for part in ("Book early", "note: by", "Keep receipts"))
    assert knowledge.read("a.md").metadata == {}


def test_b_16_without_a_closing_fence_the_text_is_found(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Coffee machine\nkeywords: [coffee]\n\n# Cleaning\n"
        "Run the tablet programme weekly.\n"
    )
    knowledge = build({"a.md": text})

    blocks = ask(knowledge, "coffee machine cleaning tablet").evidence_blocks

    assert [BODY in block.content for block in blocks] == [True]
    assert warned(knowledge) == {"a.md"}


@pytest.mark.parametrize("end", ["----", "--", " ---", "***", "===", "--- end", "\u2014", "- - -"])
@pytest.mark.parametrize("after", ["", "\n\n---\n\nMore.", "\n\nMore\n---\nand more.", "\n\n...\n"])
def test_a_wrong_closing_fence_costs_no_text(build: Build, end: str, after: str) -> None:
    text = f"---\ntitle: Coffee\nkeywords: [coffee]\n{end}\n\n{BODY}{after}"
    knowledge = build({"a.md": text}, HASH)

    assert BODY in text_of(knowledge)
    assert warned(knowledge) == {"a.md"}


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(f"\n# Cleaning\n{BODY}\n\n---\n\nMore.", id="rule"),
        pytest.param(f"\n{BODY}\n\nMore\n---\n\nand more.", id="underlined heading"),
        pytest.param(f"\n- one\n\n{BODY}\n\n...\n\nMore.", id="dots"),
        pytest.param(f"{BODY}\n\n---\n\nMore.", id="no blank line"),
    ],
)
def test_a_later_rule_does_not_swallow_the_text_above_it(build: Build, rest: str) -> None:
    knowledge = build({"a.md": f"---\ntitle: Coffee\n{rest}"}, HASH)

    assert (BODY in text_of(knowledge), "More" in text_of(knowledge)) == (True, True)
    assert warned(knowledge) == {"a.md"}


def test_b_23_toml_is_read_and_never_shown(build: Build, ask: Ask) -> None:
    text = (
        '+++\ntitle = "Boiler service"\ndate = 2026-01-01\ntags = ["boiler"]\n+++\n\n'
        "# Yearly check\nCall the fitter in May.\n"
    )
    knowledge = build({"a.md": text})

    (block,) = ask(knowledge, "boiler fitter").evidence_blocks

    assert (block.title, block.content) == ("Boiler service", "Call the fitter in May.")
    assert knowledge.read("a.md").metadata == {"date": "2026-01-01", "tags": ["boiler"]}


@pytest.mark.parametrize(
    "head",
    [
        pytest.param('---json\n{"title": "T"}\n---\n', id="named JSON"),
        pytest.param(';;;\n{"title": "T"}\n;;;\n', id="JSON between semicolons"),
        pytest.param('{\n  "title": "T"\n}\n\n', id="bare JSON"),
        pytest.param("title: T\nkeywords: [a]\n---\n", id="no opening fence"),
        pytest.param('+++\ntitle = "T"\n\n', id="TOML never closed"),
        pytest.param("+++\ntitle = T\n+++\n", id="broken TOML"),
        pytest.param("+++\ntitle: T\n+++\n", id="YAML in TOML fences"),
        pytest.param('---\ntitle = "T"\n---\n', id="TOML in YAML fences"),
    ],
)
def test_metadata_in_a_style_that_is_not_read_is_reported(build: Build, head: str) -> None:
    knowledge = build({"a.md": f"{head}{BODY}"}, HASH)

    assert BODY in text_of(knowledge)
    assert warned(knowledge) == {"a.md"}


@pytest.mark.parametrize(
    ("block", "body", "query"),
    [
        pytest.param(
            "- soap\n- towels", "Supplies are counted on Friday.", "supplies", id="B-25-list"
        ),
        pytest.param("remember the milk", "Fridge rules.", "fridge rules", id="B-25-string"),
        pytest.param("# nothing here yet", "Locker keys.", "locker keys", id="B-25-comment"),
    ],
)
def test_a_block_without_keys_costs_no_text(
    build: Build, ask: Ask, block: str, body: str, query: str
) -> None:
    knowledge = build({"a.md": f"---\n{block}\n---\n{body}\n"})

    result = ask(knowledge, query)

    assert [body in found.content for found in result.evidence_blocks] == [True]
    words = block.strip("-# ").replace("\n- ", " ").split()
    assert all(word in text_of(knowledge) for word in words) or warned(knowledge) == {"a.md"}


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("soap", id="word"),
        pytest.param("'soap'", id="quoted"),
        pytest.param("42 soap", id="number and word"),
        pytest.param("|\n  soap", id="block of text"),
        pytest.param("[soap, towels]", id="flow list"),
        pytest.param("- soap\n- towels: 2", id="list of keys"),
        pytest.param("- name: soap\n  size: 2", id="list of mappings"),
        pytest.param("&a soap", id="anchor"),
        pytest.param("!tag soap", id="tag"),
        pytest.param("%YAML 1.1\n# soap", id="directive"),
        pytest.param("# soap\n\n# towels", id="comments, or headings"),
        pytest.param("> soap", id="quotation"),
        pytest.param("```\nsoap: 1\n```", id="code"),
        pytest.param("| soap | 2 |\n|---|---|", id="table"),
    ],
)
def test_whatever_stands_in_a_block_without_keys_is_kept(build: Build, block: str) -> None:
    knowledge = build({"a.md": f"---\n{block}\n---\n{BODY}"}, HASH)

    assert (BODY in text_of(knowledge), "soap" in text_of(knowledge)) == (True, True)


LEVELS = "\n".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8))
BOMB = f"a0: &a0 [{','.join('x' * 9)}]\n{LEVELS}"


def test_b_27_an_alias_bomb_is_refused_beside_its_neighbour(build: Build, ask: Ask) -> None:
    bomb = f"---\ntitle: Harmless\n{BOMB}\n---\nShelf labels are blue.\n"
    neighbour = "# Neighbour\nShelf three holds paper.\n"
    knowledge = build({"a.md": bomb, "b.md": neighbour})

    assert sources(ask(knowledge, "paper")) == ["b.md"]
    assert "Shelf labels are blue." in text_of(knowledge)
    assert warned(knowledge) == {"a.md"}
    assert len(json.dumps(knowledge.read("a.md").metadata)) < 1_000_000


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(BOMB.replace("[", "{k: [").replace("]", "]}"), id="mappings"),
        pytest.param(f"{BOMB}\nkeywords: *a7", id="as keywords"),
        pytest.param(f"{BOMB}\ntitle: *a7", id="as the title"),
        pytest.param("a: &a [*a]", id="contains itself"),
        pytest.param("a: &a {b: *a}", id="mapping contains itself"),
        pytest.param(f"a: {'[' * 5000}{']' * 5000}", id="nesting"),
        pytest.param(f"a: {'{a: ' * 3000}x{'}' * 3000}", id="nested keys"),
        pytest.param(f"a: [{'x,' * 30_000}]", id="many values"),
        pytest.param("\n".join(f"k{n}: v" for n in range(20_000)), id="many keys"),
    ],
)
def test_a_block_without_end_costs_metadata_at_most(build: Build, ask: Ask, block: str) -> None:
    files = {"a.md": f"---\n{block}\n---\n{BODY}", "b.md": "Shelf three holds paper."}
    knowledge = build(files, HASH)

    assert sources(ask(knowledge, "shelf three holds paper")) == ["b.md"]
    assert BODY in text_of(knowledge)
    assert warned(knowledge) == {"a.md"}
    assert len(json.dumps(knowledge.read("a.md").metadata)) < 1_000_000


def test_b_29_tags_run_nothing_and_drop_nothing(
    build: Build, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "a.md": "---\ntitle: !!python/object/apply:os.mkdir [pwned_dir]\n---\nCar park gate.\n",
        "b.md": "---\ntitle: !ref intro\n---\nMeeting room light switch.\n",
    }
    knowledge = build(files)

    assert not (tmp_path / "pwned_dir").exists()
    assert sources(ask(knowledge, "car park gate")) == ["a.md"]
    assert sources(ask(knowledge, "light switch")) == ["b.md"]
    assert warned(knowledge) == {"a.md", "b.md"}


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.mkdir [pwned]",
        "!!python/object/apply:os.system ['mkdir pwned']",
        "!!python/object/new:os.mkdir {args: [pwned]}",
        "!!python/name:os.mkdir",
        "!!python/module:os",
        "!<tag:yaml.org,2002:python/object/apply:os.mkdir> [pwned]",
        "!<!local> x",
        "!include other.md",
        "!!js/function 'x'",
        "!!no-such-type x",
    ],
)
@pytest.mark.parametrize("key", ["title", "keywords", "other", "x: a: b\ntitle"])
def test_no_tag_runs_and_each_is_reported(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    knowledge = build({"a.md": f"---\n{key}: {value}\n---\n{BODY}"}, HASH)

    assert not (tmp_path / "pwned").exists()
    assert BODY in text_of(knowledge)
    assert warned(knowledge) == {"a.md"}


def test_b_53_keys_inside_other_keys_are_no_filter(build: Build, ask: Ask) -> None:
    text = (
        "---\ntitle: Nested\nmeta:\n  category: network\n  owner: {team: ops}\ntags:\n- switch\n"
        "---\nThe core switch is in rack 2.\n"
    )
    knowledge = build({"a.md": text})

    result = ask(knowledge, "core switch")

    assert sources(result) == ["a.md"]
    assert [attempt.filter for attempt in result.retrieval_trace.attempts] == [None]


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("---\ncategory: {name: network}\nkeywords: {a: network}\n---\n", id="mapping"),
        pytest.param("---\nmeta.category: network\n---\n", id="dotted key"),
        pytest.param("---\nmeta: [{category: network}]\n---\n", id="mapping in a list"),
        pytest.param("---\nkeywords: [{name: network}, [network]]\n---\n", id="odd keywords"),
        pytest.param("---\nentities: {person: network}\n---\n", id="entities"),
        pytest.param('+++\n[extra]\ncategory = "network"\n+++\n', id="TOML table"),
        pytest.param('+++\n[[meta]]\ncategory = "network"\n+++\n', id="TOML tables"),
        pytest.param('+++\nmeta.category = "network"\n+++\n', id="TOML dotted key"),
    ],
)
def test_nothing_nested_becomes_a_hint_or_a_filter(build: Build, ask: Ask, head: str) -> None:
    knowledge = build({"a.md": f"{head}{BODY}"}, HASH)

    result = ask(knowledge, f"{BODY} network")

    assert sources(result) == ["a.md"]
    assert [attempt.filter for attempt in result.retrieval_trace.attempts] == [None]
    hints = result.retrieval_trace.hints
    assert (hints.keywords, hints.entities, hints.categories) == ((), (), ())
