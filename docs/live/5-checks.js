// Every figure of the tables is computed anew by this script: what it shows at other places of its sliders is the same
// functions at other arguments.

function* everyCheck(tables) {
  yield* checksOfTrees(tables.trees);
  yield* checksOfSchedules(tables.schedules);
  yield* checksOfStreams(tables.streams);
}

function* sameLaw(what, law, expected) {
  for (const name of new Set([...law.keys(), ...Object.keys(expected)])) {
    yield [`${what}: P(${name})`, written(law.get(name) ?? NOTHING), expected[name] ?? "0"];
  }
}

function* checksOfTrees({ trees, scenes, coinParts }) {
  for (const entry of scenes) {
    const scene = sceneOf(trees[entry.tree], entry.rows.map((row) => row.map(parsed)));
    yield* sameLaw(`target of ${entry.tree}`, targetLaw(scene), entry.target);
    for (const [fault, expected] of Object.entries(entry.samplers)) {
      const what = `${entry.tree}, ${fault || "the reference"}`;
      const law = treeLaw(scene, fault);
      yield* sameLaw(what, law, expected.law);
      yield [`bias of ${what}`, written(biasOfTree(scene, law)), expected.bias.exact];
      for (const [place, parts] of entry.coins.entries()) {
        const coins = Object.fromEntries(parts.map((one, node) => [COIN_OF(node), part(one, coinParts)]));
        coins[LAST_COIN] = part(parts.at(-1), coinParts);
        const { path, tokens } = walk(scene, fault, setCoins(coins));
        yield [`walk ${place} of ${what}`, JSON.stringify([path, tokens]), JSON.stringify(expected.walks[place])];
      }
    }
  }
}

function* checksOfSchedules({ parts, tabulated, moved }) {
  const listed = (lengths) => new Map(Object.entries(lengths).map(([name, one]) => [name, one.split(" ").map(Number)]));
  for (const { name, lengths, stops, laws } of tabulated) {
    yield* checksOfSchedule(name, requestOf(moved[0].parts, parts), listed(lengths), stops, laws);
  }
  for (const { parts: chances, rule, by, lengths, stops, laws } of moved) {
    const request = requestOf(chances, parts);
    const chosen = lengthsOf(SCHEDULERS[rule](request, rule === "own" ? parsed(by) : Number(by)));
    const what = `${rule} ${by} at ${chances}`;
    for (const [name, length] of chosen) yield [`lengths of ${what} of ${name}`, named(length), lengths[name]];
    yield* checksOfSchedule(what, request, chosen, stops, laws);
  }
}

function* checksOfSchedule(name, request, lengths, stops, laws) {
  for (const lookAhead of [0, 1]) {
    yield [`whether ${name} stops`, firstUnpredictable(lengths, lookAhead) === null, stops[lookAhead]];
  }
  for (const [form, expected] of laws.entries()) {
    const law = jointLaw(request, lengths, form);
    const what = `${name}, form ${form}`;
    yield [`distance of ${what}`, written(law.distance), expected.distance];
    yield [`laws alone of ${what}`, law.alone.map(written).join(" "), expected.alone.join(" ")];
    yield [`dependence of ${what}`, written(law.dependence), expected.dependence];
    yield [`verified drafts of ${what}`, written(law.numVerified), expected.verified];
    yield [`tokens of ${what}`, written(law.numEmitted), expected.emitted];
  }
}

function* checksOfStreams({ entries }) {
  for (const { target, proposal, sharing } of entries) {
    const [p, q] = [rowOf(target), rowOf(proposal)];
    for (const [fault, expected] of Object.entries(sharing)) {
      const what = `${fault || "fresh noise"} at ${target} and ${proposal}`;
      const law = lawOfTwo(fault, p, q);
      yield* sameLaw(what, law, expected.law);
      yield* sameLaw(`first token of ${what}`, firstToken(law), expected.first);
      yield [`bias of ${what}`, written(totalVariation(law, targetOfTwo(p))), expected.bias.exact];
      const first = totalVariation(firstToken(law), firstToken(targetOfTwo(p)));
      yield [`bias of the first token of ${what}`, written(first), expected.biasOfFirst.exact];
    }
  }
}
