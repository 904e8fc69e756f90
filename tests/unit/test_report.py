"""The page: hostile names stay text, nothing is loaded, and every part may be missing."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest
import report_samples as samples

from pgstow import verification
from pgstow.model import Goal, LatencyMs, RelationId, Setting, Warning
from pgstow.report import ReportDocument, render

pytestmark = pytest.mark.usefixtures("drawn_once")

FORBIDDEN_TAGS = {"img", "iframe", "object", "embed", "link", "base", "form", "foreignobject"}
LOADING = ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "formaction")


class Page(HTMLParser):
    """Every tag with its attributes, and the text outside script and style."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.text += data


def hostile() -> ReportDocument:
    """A document with hostile text wherever text can come from outside."""
    text = "".join(samples.HOSTILE[:3]) + "</title></style></script><script>alert(2)</script>"
    base = samples.document(samples.HOSTILE)
    assert base.plan is not None
    outcomes = tuple(
        replace(
            one,
            note=text,
            step=replace(one.step, subject=text, action=text, undo=text, lock=text),
        )
        for one in base.steps
    )
    reasons = tuple(
        replace(reason, subject=text, choice=text, because=text, next_best=text)
        for reason in base.plan.reasons
    )
    settings = (Setting(text, text, None, text, text, text),)
    return replace(
        base,
        title=text,
        machine=text,
        server_version=text,
        steps=outcomes,
        plan=replace(base.plan, reasons=reasons, settings=settings),
        warnings=(Warning("x", text, text),),
        commands=(text,),
    )


@pytest.fixture(scope="module")
def hostile_page() -> str:
    return render(hostile())


def test_hostile_names_are_text(hostile_page: str) -> None:
    page = Page(hostile_page)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not FORBIDDEN_TAGS & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    assert "<script>alert(1)</script>" in page.text
    assert '"><img src=x onerror=alert(1)>' in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", hostile_page)


def test_nothing_is_loaded(hostile_page: str) -> None:
    for tag, attributes in Page(hostile_page).tags:
        for name in LOADING:
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)
    style = "".join(re.findall(r"<style>(.*?)</style>", hostile_page, re.DOTALL))
    assert "url(" not in style and "@import" not in style
    assert "http://" not in hostile_page and "https://" not in hostile_page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', hostile_page)
    assert policy and "default-src &#39;none&#39;" in policy[1]


def test_settings_are_shown_with_their_reasons() -> None:
    base = samples.document()
    assert base.plan is not None
    one = Setting("wal_compression", "on", "off", "full-page images compress", "documentation")
    own = Setting("random_page_cost", "1.6", None, "it is quick", "documentation", "fast")
    page = Page(render(replace(base, plan=replace(base.plan, settings=(one, own)))))
    for text in ("wal_compression", "full-page images compress", "tablespace fast", "not set"):
        assert text in page.text
    assert "Settings that go with it" not in Page(render(base)).text


def without() -> Iterator[ReportDocument]:
    """The document without each of its parts, and with little."""
    base = samples.document()
    empty = ReportDocument("Empty", "2026-11-20T12:00:00+00:00")
    for field in fields(ReportDocument):
        if field.name not in ("title", "generated_at"):
            yield replace(base, **{field.name: getattr(empty, field.name)})
            yield replace(empty, **{field.name: getattr(base, field.name)})
    yield empty
    yield replace(base, plan=None, predicted=None, after=None, comparisons=(), effect=None)
    yield replace(base, after=None)
    bare = replace(samples.profile(), host=None, demands=(), commit_ms=(), tps_samples=())
    yield replace(empty, profile=bare)
    nothing = replace(bare, server=replace(bare.server, relations=(), settings=()))
    yield replace(empty, profile=nothing)


def test_every_part_may_be_missing() -> None:
    for document in without():
        page = Page(render(document))
        assert ("h1", {}) in page.tags
        assert "None" not in page.text and "nan" not in page.text, document
        assert not page.open


def test_the_whole_page_has_every_section() -> None:
    html = render(samples.document())
    page = Page(html)
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert ids >= {"layout", "speed", "price", "why", "steps", "relations", "provenance"}
    assert "4.3 × the transactions per second" in page.text
    assert "31.2 ms → 4.1 ms" in page.text
    assert "$12.00 → $32.96 per month" in page.text
    labels = [a.get("aria-label") for tag, a in page.tags if tag == "svg"]
    assert len(labels) == 4 + 4 and all(labels)  # two widths of two layouts, four charts
    scopes = [a.get("scope") for tag, a in page.tags if tag == "th"]
    assert scopes and all(scopes)
    found = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(found) == len(set(found))


def test_a_change_that_is_not_shown_is_not_claimed() -> None:
    base = samples.document()
    assert base.after is not None
    noisy = [100.0, 900.0, 300.0, 700.0]
    effect = verification.effect(noisy, [value * 1.1 for value in noisy])
    speed = replace(base.after.performance, tps=1400.0)
    changed = replace(base, after=replace(base.after, performance=speed), effect=effect)
    text = Page(render(changed)).text
    assert "No difference in throughput is demonstrated" in text
    assert "no difference demonstrated" in text


def test_thousands_of_relations_do_not_make_a_page_nobody_can_open() -> None:
    base = samples.profile()
    relation, demand = base.server.relations[0], base.demands[0]
    ids = [RelationId("content", "public", f"part_{number:06}") for number in range(20_000)]
    many = replace(
        base,
        server=replace(base.server, relations=tuple(replace(relation, id=i) for i in ids)),
        demands=tuple(replace(demand, relation=i) for i in ids[:50]),
    )
    html = render(ReportDocument("Many", "2026-11-20", profile=many))
    assert len(html) < 3_000_000
    assert "18000 less busy relations" in html


def test_relations_carry_what_sorts_them() -> None:
    page = Page(render(samples.document()))
    values = [float(a["data-value"] or "") for tag, a in page.tags if "data-value" in a]
    own = [row for row in samples.RELATIONS if row[1] != "toast"]  # which is with its table
    assert len(values) == 5 * len(own)


def test_a_latency_that_rose_is_in_the_headline() -> None:
    base = samples.document()
    assert base.after is not None and base.before is not None
    one = replace(base.before.performance, tps=970.0, latency_ms=LatencyMs(1.1, None))
    other = replace(
        base.after.performance,
        tps=1261.0,
        latency_ms=LatencyMs(5.71, None),
        commit_ms=LatencyMs(None, None),
    )
    changed = replace(
        base,
        before=replace(base.before, performance=one),
        after=replace(base.after, performance=other),
    )
    text = Page(render(changed)).text
    assert "1.3 × the transactions per second, but mean latency 1.1 ms → 5.71 ms (+419 %)" in text
    assert "goal at most 5 ms: not measured" in text


def test_cards_say_what_was_predicted_and_whether_goals_are_met() -> None:
    base = samples.document()
    text = Page(render(base)).text
    assert "predicted 5,210 (−7.6 %)" in text and "goal at least 5,200: met" in text
    assert "missed: predicted 5.4 ms (+31.7 %)" in text and "goal at most 5 ms: met" in text
    assert base.plan is not None
    harder = replace(base, plan=replace(base.plan, goal=replace(base.plan.goal, tps=6000.0)))
    assert "goal at least 6,000: not met" in Page(render(harder)).text
    silent = replace(base, plan=replace(base.plan, goal=Goal()))  # what it was planned for
    assert "goal at least 2,500: met" in Page(render(silent)).text
    older = replace(silent, plan=replace(base.plan, goal=Goal(), bound=None))
    assert "goal at least 1,312: met" in Page(render(older)).text
    planned = replace(base, after=None, comparisons=(), effect=None)
    assert "predicted 4,580 to 5,840" in Page(render(planned)).text
    assert base.plan is not None and base.plan.bound is not None  # accepted within 2 %
    close = replace(base.plan, goal=replace(base.plan.goal, tps=5300.0))
    assert "goal at least 5,300: expected" in Page(render(replace(planned, plan=close))).text


def test_a_step_whose_time_was_missed_is_marked() -> None:
    base = samples.document()
    slow = replace(base.steps[1], seconds=174.0)
    steps = (base.steps[0], slow, *base.steps[2:])
    assert "5.6 × the estimate" in Page(render(replace(base, steps=steps))).text
    assert "× the estimate" not in Page(render(base)).text
    said = replace(slow, step=replace(slow.step, seconds_loaded=150.0))
    text = Page(render(replace(base, steps=(said,)))).text
    assert "31 s to 2 min 30 s" in text  # as diff said it
    assert "× the estimate" not in text


def test_what_holds_a_layout_back_is_not_hidden_by_the_cpu() -> None:
    base = samples.document()
    assert base.predicted is not None
    loads = tuple(replace(v, utilisation=0.95, binding="iops") for v in base.predicted.volumes[:1])
    busy = replace(base.predicted, bottleneck="cpu", cpu_utilisation=0.97, volumes=loads)
    text = Page(render(replace(base, predicted=busy))).text
    assert "held back by the CPU (the CPU at 97 %, volume data at 95 % of its IOPS)" in text


def test_warnings_take_one_line_until_they_are_opened() -> None:
    page = Page(render(samples.document()))
    assert "2 warnings:" in page.text
    (found,) = [a for tag, a in page.tags if tag == "details" and a.get("class") == "warnings"]
    assert "open" not in found


def test_provenance_is_more_than_a_tooltip() -> None:
    page = Page(render(samples.document()))
    ids = {a.get("id") for _, a in page.tags}
    tags = [a for tag, a in page.tags if tag == "a" and (a.get("class") or "").startswith("tag")]
    assert len(tags) > 5
    assert {(a["href"] or "#")[1:] for a in tags} <= ids


def test_what_is_read_aloud_is_not_the_title_again() -> None:
    page = Page(render(samples.document()))
    labels = [a["aria-label"] or "" for tag, a in page.tags if tag == "svg" and "aria-label" in a]
    assert any("before 1,312" in label for label in labels)
    assert any(label.startswith("commit, p99") or "commit, p99:" in label for label in labels)
    assert not any(label in ("Latency", "Transactions per second") for label in labels)
