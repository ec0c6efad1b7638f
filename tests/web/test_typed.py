"""What is typed is not lost: by a reload at once, by leaving, by two tabs on one draft."""

import pytest
from stage import browser, watched

pytestmark = pytest.mark.long


def begun(page, base):
    page.goto(base + "/write")
    page.fill("#target", "football")
    page.click("text=Begin a letter")
    page.wait_for_load_state()
    return page.url


def test_a_reload_at_once_and_leaving_keep_what_was_typed(stage):
    with browser() as context:
        page, faults = watched(context)
        page.goto(stage.address("ann"))
        for number in range(5):
            begun(page, stage.base("ann"))
            page.fill("#body", f"word {number}")
            page.reload()
            assert page.input_value("#body") == f"word {number}"
            page.get_by_text("Kept.").wait_for()
            draft = page.url
            page.fill("#subject", f"subject {number}")
            page.goto(stage.base("ann") + "/inbox")
            page.goto(draft)
            assert (page.input_value("#subject"), page.input_value("#body")) == (
                f"subject {number}",
                f"word {number}",
            )
        assert not faults


def test_what_another_tab_has_kept_since_is_not_overwritten(stage):
    with browser() as context:
        page, other = context.new_page(), context.new_page()
        page.goto(stage.address("ann"))
        draft = begun(page, stage.base("ann"))
        page.fill("#body", "older")
        page.goto(stage.base("ann") + "/inbox")  # the older word is noted in this tab
        other.goto(draft)
        other.fill("#body", "newer")
        other.get_by_text("Kept.").wait_for()
        page.goto(draft)
        assert page.input_value("#body") == "newer"
