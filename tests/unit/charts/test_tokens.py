"""The colours of the page: readable as text and as shapes, and told apart by eyes that miss one kind of cone."""

import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import pipelines.charts

TOKENS = (Path(pipelines.charts.__file__).parent / "templates/tokens.css").read_text()
THEMES = ("light", "dark")
SOLID = ("lost", "offline", "under-min-isr", "held-back")
OUTLINED = ("loss-not-excluded", "unknown", "at-risk", "ok")
PLAIN = ("ground", "card", "line", "ink", "quiet", "link", "control")
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def tokens(theme):
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", TOKENS)
    return {name: linear(light if theme == "light" else dark) for name, light, dark in found}


def linear(color):
    value = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    bright, dark = sorted((float(c @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def oklab(color):
    lms = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                    [0.0883024619, 0.2817188376, 0.6299787005]]) @ color  # fmt: skip
    return np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                     [0.0259040371, 0.7827717662, -0.8086757660]]) @ np.cbrt(np.clip(lms, 0, None))  # fmt: skip


def seen(color, sight):
    return oklab(np.clip(np.array(SIGHT[sight]) @ color, 0, 1))


def test_every_token_of_the_states_and_the_page_is_there():
    wanted = {f"{state}-{part}" for state in SOLID for part in ("fill", "on", "text", "tint")}
    wanted |= {"loss-not-excluded-tint", "unknown-tint", "at-risk-tint", "not-judged-text", "not-judged-tint"}
    wanted |= {f"{state}-text" for state in OUTLINED} | set(PLAIN)
    assert wanted - tokens("light").keys() == set()


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_a_contrast_of_4_5_with_what_it_stands_on(theme):
    of = tokens(theme)
    grounds = ("card", "ground")
    pairs = [(f"{state}-on", f"{state}-fill") for state in SOLID]
    pairs += [(name, tint) for name in of if (tint := name.replace("-text", "-tint")) != name and tint in of]
    pairs += [*product([name for name in of if name.endswith("-text")] + ["ink", "quiet", "link"], grounds)]
    assert {pair: value for pair in pairs if (value := contrast(of[pair[0]], of[pair[1]])) < 4.5} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_shapes_and_controls_have_a_contrast_of_3_with_card_and_ground(theme):
    of = tokens(theme)
    names = [f"{state}-fill" for state in SOLID] + [f"{state}-text" for state in OUTLINED] + ["control"]
    pairs = product(names, ("card", "ground"))
    assert {pair: value for pair in pairs if (value := contrast(of[pair[0]], of[pair[1]])) < 3} == {}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("theme", THEMES)
def test_states_of_one_kind_are_told_apart_by_every_eye(theme, sight):
    of = tokens(theme)
    for names, least in (([f"{s}-fill" for s in SOLID], 8), ([f"{s}-text" for s in OUTLINED], 7)):
        apart = {
            (one, other): round(100 * float(np.linalg.norm(seen(of[one], sight) - seen(of[other], sight))), 1)
            for one, other in combinations(names, 2)
        }
        assert {pair: value for pair, value in apart.items() if value < least} == {}
