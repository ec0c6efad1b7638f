"""Tag rules find those who meant it; too few names change nothing."""

from implicast.language.parse import parse
from implicast.language.rules import RELATIONS, Rule, offers, stated, widened
from implicast.trials.tag_rules import TagRules, TagRuleSettings, thesaurus


def about(*rules):
    return lambda tag: stated(tag, rules)


def test_a_rule_is_read_from_both_ends():
    assert Rule("ml", "USE", "machine-learning").read_from("machine-learning") == ("UF", "ml")
    assert Rule("a", "NT", "b").read_from("b") == ("BT", "a")
    assert Rule("a", "RT", "b").read_from("c") is None
    for relation in RELATIONS:
        back = Rule("a", relation, "b").read_from("b")
        assert Rule("b", back[0], "a").read_from("a") == (relation, "b")


def test_own_rules_count_at_once_and_others_from_so_many_names():
    rule = Rule("ml", "UF", "machine-learning")
    others = [(f"n{number}", Rule("ml", "RT", "x")) for number in range(3)]
    known = about(("me", rule), *others, ("n9", Rule("ml", "RT", "y")))
    found = offers(parse("ml & privacy"), known, "me", 3)
    assert [(each.other, each.names, each.own) for each in found] == [
        ("machine-learning", 1, True),
        ("x", 3, False),
    ]
    assert offers(parse("ml"), known, "nobody", 4) == []


def test_one_name_counts_once_however_often_it_states_a_rule():
    rule = Rule("a", "UF", "b")
    assert (
        offers(
            parse("a"),
            about(*(("n1", each) for each in (rule, rule, Rule("b", "USE", "a")))),
            "me",
            2,
        )
        == []
    )


def test_widening_selects_more_and_never_fewer_and_offers_end_when_they_are_taken():
    target = parse("ml & privacy | ml & !eu & gpu")
    wide = widened(target, "ml", "learning")
    assert wide == parse(
        "ml & privacy | learning & privacy | ml & !eu & gpu | learning & !eu & gpu"
    )
    known = about(("me", Rule("ml", "UF", "learning")))
    assert [offer.other for offer in offers(target, known, "me", 3)] == ["learning"]
    assert offers(wide, known, "me", 3) == []


def test_the_thesaurus_is_whole():
    concepts = thesaurus()
    words = [word for each in concepts.values() for word in each.words]
    assert len(concepts) >= 25
    assert len(words) == len(set(words)), "a word means one concept"
    assert all(narrower in concepts for each in concepts.values() for narrower in each.includes)


def test_recall_before_and_after_in_the_world():
    outcome = TagRules(TagRuleSettings("centralised")).run()
    assert outcome.recall_before < 0.45
    assert outcome.recall_after > 0.75
    assert outcome.precision_after > 0.99, "what few state wrongly is not offered"
    assert outcome.messages_after < 4 * outcome.messages_before


def test_wrong_rules_do_harm_where_one_name_suffices():
    """The threshold matters: without it the same wrong rules spoil the answer."""
    careless = TagRules(TagRuleSettings("centralised", names_min=1)).run()
    assert careless.precision_after < 0.9
