"""What is allowed, asked or wished for once is no rule; what is laid down for good is one."""

from __future__ import annotations

import pytest

from turnmill.contract.names import Seq
from turnmill.rules.standing import Said, in_force

FOR_ONCE = (
    "Yes, go ahead and cancel it.",
    "Yes, go ahead and cancel it — you have my permission.",
    "I authorize you to cancel the gym contract.",
    "I authorize the $35 late fee to be charged to my debit card.",
    "I consent to the transfer.",
    "You have my permission to proceed.",
    "You have my permission to proceed with those changes.",
    "You may charge it now.",
    "You may delete that file.",
    "It's fine to book it.",
    "No need to confirm that.",
    "Once the form is signed, I authorize release of the deposit.",
    "I allow you to submit this application for me.",
    "If there is nothing else you can do, then yes, cancel booking QX12 for all three of us.",
    "Before we proceed, please check whether the room has a bath.",
    "Before you submit, can you confirm the total?",
    "Before I decide, could you also check the following:",
    "Before you transfer me, please confirm that the ticket is open.",
    "When we get to payment, please apply the coupon first.",
    "Tell me the price per night.",
    "What is the rate per day?",
    "Find the cheapest fee per month.",
    "I'll keep an eye out for the refund within 10 days.",
    "I'll keep the receipt and watch for the money within 7 days.",
    "I'd prefer not to type it here.",
    "I'd rather not read that number out loud.",
    "I'd prefer to sort this out with you directly.",
    "I'd really prefer to get it into the garage before the rain.",
    "I'd rather not repeat that experience.",
    "I much prefer doing it myself this once.",
    "I'd prefer not to empty my savings in the process.",
    "Stick to two runs this week.",
)
SMALL_TALK = (
    "Keep me posted and let me know if you need any advice or a hand!",
    "Let me know if you need any ideas.",
    "I bet you can't wait to see the mountains.",
    "You can always get better at chess.",
    "Thanks, I'll keep it in mind.",
    "Being honest in my songs is something that I value.",
    "This must be very tasty, with all the trimmings!",
    "I make sure to read at least one chapter each night.",
    "Each time I order a part, I log in again, type my address, and pay for shipping.",
    "I've had a few parties at home, and each time, my old stove has been great.",
    "We always have a blast, keep going!",
    "Keep us updated on how it goes!",
    "Keep up the good work, and never give up on your dreams!",
)
FOR_GOOD = (
    "You have my permission to reschedule meetings.",
    "You may use my card ending in 4421 for groceries.",
    "I authorize you to spend up to $50 on my behalf.",
    "I authorize any refund to go back to the original card.",
    "I consent to recordings of my calls.",
    "I allow smoking on the balcony.",
    "You have permission to edit my calendar.",
    "You may call me at the office.",
    "It's fine to text me after 6 pm.",
    "You can email me any time.",
    "You can always call me on my mobile.",
    "Before you book anything, check with me.",
    "Before you send anything to customers, confirm with me.",
    "Before you start a new task, pull the latest branch.",
    "Before every release, run the full test suite.",
    "If anything would cost extra, pause and check with me before proceeding.",
    "Do not charge anything without my okay.",
    "Limit yourself to 20 requests per day.",
    "Keep the bundle under 200 KB.",
    "Keep me posted on every change of the schedule.",
    "I'd rather take the train than fly.",
    "I'd prefer that you not use my first name.",
    "I'd rather you didn't use tables.",
    "I'd prefer not to get calls in the evening.",
    "I'd prefer answers in bullet points.",
    "I prefer to keep it short.",
    "I prefer not to be photographed.",
    "I'd rather pay a bit more than change trains.",
    "Stick to Python 3.9 features.",
    "Keep in mind that I'm deaf in one ear.",
    "I get migraines from strobe lights, keep that in mind when you pick venues.",
    "I value plain speech over politeness.",
    "My knees are bad, so avoid routes with stairs.",
    "I work nights, so please don't suggest anything before noon.",
    "I'm vegan, always check the menu first.",
    "I must stay under 1,800 calories a day.",
    "You don't need to ask me before running tests.",
    "Go ahead and merge dependency updates without asking.",
)


def rules_in(text: str) -> list[str]:
    said = Said(Seq(1), [{"role": "user", "content": text}])
    return [rule.text for rule in in_force((), [said])]


@pytest.mark.parametrize("text", FOR_ONCE)
def test_one_act_or_a_choice_for_now_is_no_rule(text: str) -> None:
    assert rules_in(text) == []


@pytest.mark.parametrize("text", SMALL_TALK)
def test_what_people_say_to_be_friendly_or_tell_of_themselves_is_no_rule(text: str) -> None:
    assert rules_in(text) == []


@pytest.mark.parametrize("text", FOR_GOOD)
def test_what_holds_for_all_there_will_be_is_a_rule(text: str) -> None:
    assert rules_in(text) != []
