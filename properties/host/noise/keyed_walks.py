"""Verification on keyed noise, by any rule, and the exact law of its output, to which only equal keys matter."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from specsim.properties.distribution import EVERYTHING, NOTHING, Distribution, Outcome, Row, autoregressive
from specsim.properties.host.noise.races import NoClosedForm, Noise, total_variation
from specsim.properties.host.noise.strategy import KeyedScene

Branches = Iterator[tuple[Outcome, Fraction, Noise]]
"""Tokens, their chance, and what is known of the noise after them."""


@dataclass(frozen=True)
class Keys:
    """An implementation's keys, and which draws read each of them."""

    stream_key: Callable[..., Any]
    readers: dict[Hashable, dict[str, None]] = field(default_factory=dict)

    def of(self, purpose: str, seed: int, position: int, column: int = 0, epoch: int = 0) -> Hashable:
        """Return the key of a draw.

        Raises
        ------
        AssertionError
            It cannot be compared by its hash.
        """
        key: Hashable = self.stream_key(purpose, seed, position, column, epoch)
        try:
            readers = self.readers.setdefault(key, {})
        except TypeError:
            raise AssertionError(f"key of a draw = {type(key).__name__}, but should be hashable") from None
        where = f", draft {column} of iteration {epoch}" if purpose in ("draft", "accept") else ""
        readers[f"{purpose} of seed {seed} at {position}{where}"] = None
        return key

    def shared(self) -> str:
        """Return which draws read one key, in words."""
        found = [" and ".join(readers) for readers in self.readers.values() if len(readers) > 1]
        return f"one noise is that of {found[0]}" if found else "no two draws share their noise"


@dataclass(frozen=True)
class Walk:
    """A request in one iteration: its scene, the keys, the output so far, and the number of the iteration."""

    scene: KeyedScene
    keys: Keys
    text: Outcome
    epoch: int
    num_judged: int
    given: Outcome | None = None

    def key_of(self, purpose: str, place: int) -> Hashable:
        """Return the key of a draw for the token at a place after the output."""
        scene = self.scene
        return self.keys.of(purpose, scene.seed, scene.position + len(self.text) + place, place, self.epoch)

    def target(self, done: Outcome) -> Row:
        """Return the target's row after some tokens of the iteration."""
        return self.scene.target[(*self.text, *done)]

    def proposal(self, done: Outcome) -> Row:
        """Return the row that the next draft is drawn from."""
        return self.scene.proposal[(*self.text, *done)]

    def is_over(self, done: Outcome) -> bool:
        """Return whether no further token is compared."""
        return len(self.text) + len(done) >= self.scene.horizon

    def draft(self, done: Outcome, noise: Noise) -> Iterator[tuple[int, Fraction, Noise]]:
        """Yield every next draft; drafts that were given are drawn already."""
        if self.given is not None:
            yield self.given[len(done)], EVERYTHING, noise
            return
        draw = noise.pick if self.scene.by_coin else noise.race
        yield from draw(self.key_of("draft", len(done)), self.proposal(done))

    def drafts(self, count: int, noise: Noise, done: Outcome = ()) -> Branches:
        """Yield all drafts of the iteration together."""
        if len(done) == count:
            yield done, EVERYTHING, noise
            return
        for token, chance, after in self.draft(done, noise):
            for drafts, share, last in self.drafts(count, after, (*done, token)):
                yield drafts, chance * share, last

    def end(self, done: Outcome, weights: Row, noise: Noise) -> Branches:
        """Yield the tokens with every last one, drawn from weights."""
        if self.is_over(done):
            yield done, EVERYTHING, noise
            return
        draw, purpose = (noise.pick, "final") if self.scene.by_coin else (noise.race, "token")
        for token, chance, after in draw(self.key_of(purpose, len(done)), weights):
            yield (*done, token), chance, after


Rule = Callable[[Walk, Noise], Branches]


def rejection_sampling(walk: Walk, noise: Noise, done: Outcome = ()) -> Branches:
    """Accept draft after draft with chance p/q (semantics B.9); a draft is drawn when it is judged."""
    if len(done) == walk.num_judged or walk.is_over(done):
        yield from walk.end(done, walk.target(done) if not walk.is_over(done) else (), noise)
        return
    target, proposal = walk.target(done), walk.proposal(done)
    for draft, chance, after in walk.draft(done, noise):
        ratio = min(target[draft] / proposal[draft], EVERYTHING)
        for is_accepted, share, judged in after.is_below(walk.key_of("accept", len(done)), ratio):
            if is_accepted:
                rest = rejection_sampling(walk, judged, (*done, draft))
            else:
                rest = walk.end(done, residual_of(target, proposal), judged)
            for tokens, weight, last in rest:
                yield tokens, chance * share * weight, last


def block_verification(walk: Walk, noise: Noise) -> Branches:
    """Judge all drafts together (semantics B.9b): the last one whose coin passes decides."""
    for drafts, chance, after in walk.drafts(walk.num_judged, noise):
        ratios = [EVERYTHING]
        for place, draft in enumerate(drafts):
            done = drafts[:place]
            ratios.append(min(ratios[-1] * walk.target(done)[draft] / walk.proposal(done)[draft], EVERYTHING))
        passes = [_pass_of(walk, drafts, ratios, place) for place in range(1, len(drafts) + 1)]
        for tokens, share, last in _from_the_end(walk, drafts, ratios, passes, after):
            yield tokens, chance * share, last


def _pass_of(walk: Walk, drafts: Outcome, ratios: list[Fraction], place: int) -> Fraction:
    ratio = ratios[place]
    if place == len(drafts) or ratio in (0, 1):
        return ratio
    left = sum(_excess(walk.target(drafts[:place]), walk.proposal(drafts[:place]), ratio), NOTHING)
    return left / (left + 1 - ratio)


def _from_the_end(
    walk: Walk, drafts: Outcome, ratios: list[Fraction], passes: list[Fraction], noise: Noise
) -> Branches:
    count = len(passes)
    done = drafts[:count]
    if count == 0:
        weights = residual_of(walk.target(()), walk.proposal(())) if drafts else walk.target(())
        yield from walk.end((), weights, noise)
        return
    for is_passed, chance, after in noise.is_below(walk.key_of("accept", count - 1), passes[-1]):
        if not is_passed:
            rest = _from_the_end(walk, drafts, ratios, passes[:-1], after)
        elif count == len(drafts) or walk.is_over(done):
            rest = walk.end(done, walk.target(done) if not walk.is_over(done) else (), after)
        else:
            rest = walk.end(done, _excess(walk.target(done), walk.proposal(done), ratios[count]), after)
        for tokens, share, last in rest:
            yield tokens, chance * share, last


def _excess(target: Row, proposal: Row, ratio: Fraction) -> Row:
    return tuple(max(ratio * p - q, NOTHING) for p, q in zip(target, proposal, strict=True))


def residual_of(target: Row, proposal: Row) -> Row:
    """Return what is left of the target after a rejection."""
    return _excess(target, proposal, EVERYTHING)


def sampled_verify(walk: Walk, noise: Noise) -> Branches:
    """Draw the target's own token (semantics Q.2): which drafts it is compared with changes no output."""
    for token, chance, after in noise.race(walk.key_of("token", 0), walk.target(())):
        yield (token,), chance, after


def play(
    rule: Rule, scene: KeyedScene, keys: Keys, noise: Noise, length: int, text: Outcome = (), epoch: int = 0
) -> Branches:
    """Yield every output of a request up to its horizon, iteration after iteration; ``length`` is of the next."""
    if len(text) >= scene.horizon:
        yield text[: scene.horizon], EVERYTHING, noise
        return
    count = min(scene.num_drafts, scene.horizon - len(text))
    verified = min(length, count)
    num_judged = min(verified + scene.is_coupled, count)
    walk = Walk(scene, keys, text, epoch, num_judged)
    drafted = [((), EVERYTHING, noise)] if scene.lengths is None else walk.drafts(count, noise)
    for drafts, chance, after in drafted:
        given = Walk(scene, keys, text, epoch, num_judged, None if scene.lengths is None else drafts)
        following = scene.num_drafts if scene.lengths is None else scene.lengths[drafts[-1]]
        for tokens, share, last in rule(given, after):
            longer = (*text, *tokens[: verified + 1])
            for output, weight, end in play(rule, scene, keys, last, following, longer, epoch + 1):
                yield output, chance * share * weight, end


def law_of_keys(rule: Rule, scenes: tuple[KeyedScene, ...], keys: Keys) -> Distribution:
    """Return the exact joint law of the outputs of requests, one after another in one outcome.

    Raises
    ------
    NoClosedForm
        Draws share their noise in a way whose law is not rational.
    """
    laws: list[tuple[Outcome, Fraction, Noise]] = [((), EVERYTHING, Noise())]
    for scene in scenes:
        laws = [
            ((*before, *output), chance * share, last)
            for before, chance, noise in laws
            for output, share, last in play(rule, scene, keys, noise, scene.num_drafts)
        ]
    law: Distribution = {}
    for output, chance, _ in laws:
        law[output] = law.get(output, NOTHING) + chance
    return law


def expected_law(scenes: tuple[KeyedScene, ...]) -> Distribution:
    """Return the law of independent requests that are decoded token by token."""
    law: Distribution = {(): EVERYTHING}
    for scene in scenes:
        alone = autoregressive(scene.target.__getitem__, scene.horizon)
        law = {(*one, *other): chance * share for one, chance in law.items() for other, share in alone.items()}
    return law


def require_law_of_keys(stream_key: Callable[..., Any], rule: Rule, *scenes: KeyedScene) -> None:
    """Raise AssertionError unless requests on their own keys emit the target's law, independently of each other."""
    keys, expected = Keys(stream_key), expected_law(scenes)
    what = f"law of {rule.__name__.replace('_', ' ')} on its keys"
    try:
        law = law_of_keys(rule, scenes, keys)
    except NoClosedForm as found:
        readers = " and ".join(keys.readers[found.key])
        raise AssertionError(f"{what}: one noise is that of {readers}, but should be several") from None
    for output in sorted({*law, *expected}):
        got, wanted = law.get(output, NOTHING), expected.get(output, NOTHING)
        if got != wanted:
            raise AssertionError(
                f"{what}: P{list(output)} = {got}, but should be {wanted}; {keys.shared()}; "
                f"total variation {total_variation(law, expected)}"
            )
