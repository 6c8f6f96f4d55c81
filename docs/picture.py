"""The picture of the README: what two customers wait under each sharing policy. `python docs/picture.py` draws it anew."""

from pathlib import Path

from sim import SHARING_COMPARED, Picture, Scenario, compare, heatmap_picture, load_scenario
from sim.library import located

PICTURE = Path(__file__).with_name("picture.png")


def drawn(scenario: Scenario) -> Picture:
    """A scenario with its own seed, under every policy that is compared by default."""
    return heatmap_picture(compare(scenario, sharing=SHARING_COMPARED, seeds=[scenario.seed]))


if __name__ == "__main__":
    picture = drawn(load_scenario(located("noisy_neighbour")))
    picture.save(PICTURE)
    print(picture.title)
