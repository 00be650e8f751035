"""Rule pages: their examples, their marks, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.errors import UserError
from auditor.findings import Confidence
from auditor.packs import load_packs, own_pack
from auditor.pages import Example, Expected, examples, marks, read_page, table, without_marks
from tests.command.world import LEAK, REMARK, write, write_rule

if TYPE_CHECKING:
    from pathlib import Path

PAGE = '''\
# ZZ101 leaky-setting

A setting leaks, e.g. to the next job. It is not seen with one customer.

```python file=prose.py
outside()  # expect: ZZ101
```

## Bad

```python file=app/one.py
leak()  # expect: ZZ101
```

```text
not a file
```

### Across files

```python file=app/two.py
QUERY = """
    SELECT 1  -- expect: ZZ101 medium, ZZ201
"""
```

````sql file=schema.sql
SELECT '```';
````

## Good

### Across files

~~~python file=app/two.py
keep()
~~~

## Left alone

```python file=prose.py
outside()
```
'''


def test_examples_are_small_projects_with_what_is_expected_of_them(here: Path) -> None:
    assert examples(str(write(here / "page.md", PAGE))) == [
        Example(
            "bad", False, {"app/one.py": "leak()  # expect: ZZ101\n"}, frozenset({Expected("app/one.py", 1, "ZZ101")})
        ),
        Example(
            "Across files",
            False,
            {
                "app/two.py": 'QUERY = """\n    SELECT 1  -- expect: ZZ101 medium, ZZ201\n"""\n',
                "schema.sql": "SELECT '```';\n",
            },
            frozenset({Expected("app/two.py", 2, "ZZ101", Confidence.MEDIUM), Expected("app/two.py", 2, "ZZ201")}),
        ),
        Example("Across files", True, {"app/two.py": "keep()\n"}, frozenset()),
    ]


def test_two_files_of_one_name_are_refused(here: Path) -> None:
    block = "```python file=a.py\n```\n"
    page = write(here / "page.md", f"## Bad\n### Twice\n{block}{block}")
    with pytest.raises(UserError, match=r'"Twice" has two files a\.py; separate examples with a ### heading'):
        examples(str(page))


def test_a_mark_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r'a\.py:2: "TA1O1" is no expectation; write `expect: TA101 medium`'):
        list(marks("a.py", "x\ny  # expect: TA1O1\n"))


def test_marks_are_found_in_files_with_other_line_ends() -> None:
    assert list(marks("a.py", "x\r\ny  # expect: TA101\r\n")) == [Expected("a.py", 2, "TA101")]


def test_people_do_not_see_the_marks() -> None:
    text = "a  # expect: TA101\nb  -- expect: TA101 low, TA102\nc  # what to expect: nothing\n"
    assert without_marks(text) == "a\nb\nc  # what to expect: nothing\n"


def test_a_page_has_a_title_and_a_first_sentence(here: Path) -> None:
    write_rule(here, LEAK)
    write(here / "leaky_setting.md", PAGE)
    page = read_page(load_packs([str(here)])[0])
    assert page.summary == "A setting leaks, e.g. to the next job."
    assert "expect:" not in page.text


def test_a_page_of_another_rule_is_refused(here: Path) -> None:
    write_rule(here, LEAK)
    write(here / "leaky_setting.md", "# ZZ102 leaky-setting\n")
    with pytest.raises(UserError, match='the page begins with "# ZZ101 leaky-setting"'):
        read_page(load_packs([str(here)])[0])


@pytest.mark.parametrize(("stem", "code"), [("unreadable_file", "TA901"), ("unused_suppression", "TA902")])
def test_the_pages_on_files_and_comments_have_examples_of_both_kinds(stem: str, code: str) -> None:
    found = examples(f"{own_pack()}/{stem}.md")
    assert any(example.good for example in found)
    assert all(bool(example.expected) != example.good for example in found)
    assert all({mark.code for mark in example.expected} == {code} for example in found if not example.good)


def test_the_table_of_the_readme(here: Path) -> None:
    write_rule(here, LEAK)
    write_rule(here, REMARK)
    assert table(load_packs([str(here)])) == (
        "| code | name | severity | what happens |\n"
        "| --- | --- | --- | --- |\n"
        "| ZZ101 | `leaky-setting` | error | It happens at run time. |\n"
        "| ZZ301 | `small-remark` | note | It happens at run time. |\n"
    )
