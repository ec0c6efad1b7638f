"""Values and ranges: drawn by key, about as large as asked for, understood by whoever speaks attributes."""

from dataclasses import replace

import pytest

from implicast.casting.designs import designs
from implicast.language.attributes import Schema
from implicast.language.parse import parse
from implicast.peer.errors import ScenarioError
from implicast.workload.stated import read_stated
from implicast.workload.workload import WorkloadError, workload
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

SPEAKING = [name for name, each in designs().items() if "attributes" in each.languages]
SCENARIO = Scenario("centralised", peers=40, casts=24, workload="attributes", strict=True)


def test_casts_select_about_the_share_that_was_asked_for():
    drawn = workload("attributes", seed=3, peers=1000, casts=200, share=0.2, words=5)
    described = drawn.described()

    shares = [sum(target.selects(each) for each in described) / 1000 for target in drawn.targeted()]
    assert 0.15 < sum(shares) / len(shares) < 0.3
    assert min(shares) > 0.05


def test_every_form_of_cast_is_drawn_and_reads_back():
    drawn = workload("attributes", seed=1, peers=10, casts=200)
    targets = drawn.targeted()

    forms = {(len(term.has), len(term.where)) for target in targets for term in target.terms}
    assert forms == {(0, 1), (0, 2), (1, 1)}
    assert any(len(target.terms) == 2 for target in targets)
    assert all(parse(str(target)) == target for target in targets)


def test_all_values_lie_in_the_schema():
    drawn = workload("attributes", seed=1, peers=100, casts=0, domain=17, attributes=5)
    schema = Schema.read(drawn.schema())

    for each in drawn.described():
        for value in each.values:
            assert schema.text(value.attribute, value.value)


def test_columns_of_tags_cannot_hold_values():
    with pytest.raises(WorkloadError, match="values and ranges"):
        workload("attributes", peers=3, casts=3).descriptions(0, 3)


@pytest.mark.parametrize("name", SPEAKING)
def test_every_design_that_speaks_attributes_keeps_the_contract(name):
    outcome = simulate(replace(SCENARIO, design=name))

    assert outcome.contract.clean
    assert outcome.contract.expected > 20


def test_a_design_that_does_not_speak_attributes_says_so():
    deaf = next(name for name, each in designs().items() if "attributes" not in each.languages)
    with pytest.raises(ScenarioError, match="does not understand the workload attributes"):
        simulate(replace(SCENARIO, design=deaf))


def test_the_journal_of_such_a_run_is_a_workload_itself(tmp_path):
    simulate(SCENARIO, tmp_path / "run")

    again = read_stated(tmp_path / "run")
    drawn = workload("attributes", seed=SCENARIO.seed, peers=40, casts=24)
    assert again.described() == drawn.described()
    assert again.targeted() == drawn.targeted()
    outcome = simulate(replace(SCENARIO, workload=str(tmp_path / "run")))
    assert outcome.contract.clean
    assert outcome.contract.expected == simulate(SCENARIO).contract.expected
