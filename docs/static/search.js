"use strict";
// Ranks sections by BM25 over their text, their heading and the title of their page: a hit needs no more than one word of
// the query. Shows the best section of each page, below the functions and types that the query names.
(() => {
    const { pages, sections, names } = searchIndex; // docs/conf.py writes it
    const REFERENCE = 0.6; // What each page of the reference counts: its sections are long lists.
    const HITS = 15, NAMES = 8, EXCERPT = 220;
    const WORD = /c\+\+|[\p{L}\p{N}_]+/gu;
    const stemmer = new Stemmer(), stems = new Map(); // Sphinx's, as `stopwords` is

    const stem = word => {
        if (!stems.has(word)) stems.set(word, stemmer.stemWord(word));
        return stems.get(word);
    };
    const clean = word => word.toLowerCase().replace(/^_+|_+$/g, "");
    const words = text => (text.match(WORD) || []).map(clean).filter(word => word && !stopwords.has(word));
    // `a_b` is found as such, and by its parts.
    const terms = text => words(text).flatMap(word => word.includes("_") ? [word, ...word.split("_")] : [word]).map(stem);

    class Field {
        // `b` is how much the length of a text counts.
        constructor(texts, b) {
            this.b = b;
            this.counts = texts.map(text => {
                const count = new Map();
                for (const term of terms(text)) count.set(term, (count.get(term) || 0) + 1);
                return count;
            });
            this.lengths = this.counts.map(count => [...count.values()].reduce((sum, n) => sum + n, 0));
            this.average = this.lengths.reduce((sum, n) => sum + n, 0) / texts.length;
            this.having = new Map();
            for (const count of this.counts)
                for (const term of count.keys()) this.having.set(term, (this.having.get(term) || 0) + 1);
        }
        score(i, query) {
            const n = this.counts.length, norm = 1.2 * (1 - this.b + this.b * this.lengths[i] / this.average);
            return query.reduce((sum, term) => {
                const f = this.counts[i].get(term) || 0, has = this.having.get(term) || 0;
                return sum + Math.log(1 + (n - has + 0.5) / (has + 0.5)) * f * 2.2 / (f + norm);
            }, 0);
        }
    }
    const texts = new Field(sections.map(([, , , text]) => text), 0.75);
    const headings = new Field(sections.map(([, anchor, heading]) => anchor && heading), 0);
    const titles = new Field(pages.map(([, title]) => title), 0);

    // A word that no page has stands for the words that contain it.
    const all = new Set([texts, headings, titles].flatMap(field => [...field.having.keys()]));
    const known = term => all.has(term) ? [term] : [...all].filter(other => term.length > 2 && other.includes(term));

    function find(text) {
        const query = [...new Set(words(text).map(stem).flatMap(known))], best = new Map();
        sections.forEach(([page], i) => {
            const own = texts.score(i, query) + headings.score(i, query) + titles.score(page, query);
            const score = own * (pages[page][0].startsWith("c/") ? REFERENCE : 1);
            if (score > (best.get(page)?.score || 0)) best.set(page, { score, i });
        });
        const hits = [...best.values()].sort((a, b) => b.score - a.score).slice(0, HITS);
        return { query: new Set(query), hits: hits.map(({ i }) => sections[i]), named: named(text) };
    }
    // Exact names, or else those that begin with the one word of the query.
    function named(text) {
        const asked = words(text), lower = name => name[0].toLowerCase();
        const exact = names.filter(name => asked.includes(lower(name)));
        if (exact.length || asked.length != 1 || !asked[0].includes("_")) return exact;
        return names.filter(name => lower(name).startsWith(asked[0])).slice(0, NAMES);
    }

    function show(page, anchor, title, where) {
        const item = document.createElement("li"), link = document.createElement("a");
        link.href = `${pages[page][0]}.html${anchor && "#"}${anchor}`;
        link.textContent = title;
        item.append(link, where);
        return item;
    }
    // The text around the first words that were found, with all of them marked.
    function excerpt(text, query) {
        const shown = document.createElement("p");
        const matches = word => terms(word).some(term => query.has(term));
        const first = [...text.matchAll(WORD)].find(([word]) => matches(word))?.index || 0;
        const start = first < 80 ? 0 : text.indexOf(" ", first - 80) + 1;
        const rest = text.slice(start), part = rest.length <= EXCERPT ? rest : rest.slice(0, rest.lastIndexOf(" ", EXCERPT));
        let end = 0;
        for (const { 0: word, index } of part.matchAll(WORD)) {
            if (!matches(word)) continue;
            const mark = document.createElement("mark");
            mark.textContent = word;
            shown.append(part.slice(end, index), mark);
            end = index + word.length;
        }
        shown.prepend(start ? "… " : "");
        shown.append(part.slice(end), part == rest ? "" : " …");
        return shown;
    }

    const form = document.getElementById("search"), field = form.elements.q;
    function search() {
        const { query, hits, named } = find(field.value);
        document.getElementById("search-hits").replaceChildren(
            ...named.map(([name, kind, page, anchor]) => show(page, anchor, name, ` (${kind}, ${pages[page][1]})`)),
            ...hits.map(([page, anchor, heading, text]) => {
                const title = pages[page][1], item = show(page, anchor, title == heading ? title : `${title}: ${heading}`, "");
                item.append(excerpt(text, query));
                return item;
            }));
        const count = hits.length + named.length;
        document.getElementById("search-status").textContent = !field.value.trim() ? "" : `${count || "No"} hit${count == 1 ? "" : "s"}`;
    }
    field.value = new URLSearchParams(location.search).get("q") || "";
    field.addEventListener("input", search);
    search();
})();
