// The order of search results: Sphinx calls `Scorer.score` with each result, and shows the highest scores first.
// `search_order.py` puts `const copies = new Set([...]);` in front, the entries of the reference that come after guides.
const entries = "reference/api/";
const inLowerCase = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase();
const parts = (text) => text.toLowerCase().split(/[^\p{Letter}\p{Number}]+/u).filter((part) => part);
const names = new Set(inLowerCase.split(/[^\p{Letter}\p{Number}_]+/u));
const query = parts(inLowerCase);
const last = (name) => name.slice(name.lastIndexOf(".") + 1).toLowerCase();

// How well the query fits an entry: it is its name, it is a word of it or has other words, or it is any part.
const rankOfName = (page, name) => {
  const has = new Set(parts(name));
  const isComplete = query.every((part) => has.has(part));
  const isName = names.has(last(name)) || parts(last(name)).every((part) => query.includes(part));
  if (!isComplete || !isName) return isComplete || isName ? 150 : 50;
  const spaces = parts(name).slice(1, -1);
  return copies.has(page) && !spaces.some((space) => query.includes(space)) ? 60 : 300;
};

// An entry is found by its text, and as an object under each of its names; twice only if a query fits another of its names better.
const rankOfEntry = (page, title, kind) => {
  const isNamed = names.has(last(page));
  if (kind !== "object") return isNamed ? rankOfName(page, page) : 20;
  const rank = rankOfName(page, title);
  if (last(page) === last(title)) return isNamed && rank <= rankOfName(page, page) ? 10 : rank;
  const isMethod = title.startsWith(`${page}.`);
  return rank === 300 && (isNamed || !isMethod) ? rank : Math.min(rank, 90); // a method without its class, a word of a primitive
};

// Other pages have the words in a heading or in their text.
const folders = ["guides/", "tutorials/", "recipes/", "models/", "migration/"];
const rankOfPage = (page, score) => {
  const isHeading = score >= Scorer.partialTitle;
  if (/^(about|reference)\//.test(page)) return isHeading ? 140 : 40;
  const place = folders.findIndex((folder) => page.startsWith(folder));
  return (isHeading ? 200 : 100) - (place < 0 ? folders.length : place);
};

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, , , score, , kind]) => {
    const name = page.replace(entries, "").replace(/_+$/, "");
    const rank = name.startsWith("nx.") ? rankOfEntry(name, title, kind) : rankOfPage(page, score);
    return rank + score / 100;
  },
};
