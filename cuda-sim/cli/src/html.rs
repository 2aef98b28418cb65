//! Reports as one HTML file, without scripts: each race with its streams and host threads as a
//! timeline, the missing order, and both call stacks.

use super::junit::escaped;
use super::report::{Findings, relative, title};
use cudasim_core::shown::counted;
use serde_json::{Value, json};

const STYLE: &str = include_str!("report.css");

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the column of a lane, which is added if it is new.
fn column(lanes: &mut Vec<String>, name: &str) -> usize {
    lanes.iter().position(|lane| lane == name).unwrap_or_else(|| {
        lanes.push(name.to_owned());
        lanes.len() - 1
    })
}

/// Returns the lanes of a race: host threads first, each in the order in which it appears.
fn lanes(race: &Value, rows: &[Value]) -> Vec<String> {
    let mut names = Vec::new();
    for side in [&race["first"], &race["second"]] {
        if side["actor"].is_string() {
            column(&mut names, &format!("host thread {}", side["host_thread"]));
            column(&mut names, word(side, "actor"));
        }
    }
    for row in rows {
        for name in ["lane", "from", "to"] {
            if row[name].is_string() {
                column(&mut names, word(row, name));
            }
        }
        if row["host_thread"].is_u64() {
            column(&mut names, &format!("host thread {}", row["host_thread"]));
        }
    }
    let is_thread = |name: &&String| name.starts_with("host thread");
    let threads = names.iter().filter(is_thread);
    threads.chain(names.iter().filter(|name| !is_thread(name))).cloned().collect()
}

/// Returns a text that spans the columns of two lanes.
fn span(lanes: &mut Vec<String>, class: &str, from: &str, to: &str, text: &str) -> String {
    let (a, b) = (column(lanes, from), column(lanes, to));
    let (left, right) = (a.min(b) + 1, a.max(b) + 2);
    let before: String = (1..left).map(|_| "<div class=\"lane\"></div>").collect();
    let after: String = (right..=lanes.len()).map(|_| "<div class=\"lane\"></div>").collect();
    format!(
        "{before}<div class=\"{class}\" style=\"grid-column: {left} / {right}\">{}</div>{after}\n",
        escaped(text)
    )
}

fn operation(row: &Value, race: &Value, lanes: &mut Vec<String>) -> String {
    let thread = column(lanes, &format!("host thread {}", row["host_thread"]));
    let at = column(lanes, word(row, "lane"));
    let access = word(row, "access");
    let cell = |column: usize| {
        let text = if column == at {
            let verb = match access {
                "" => String::new(),
                side => format!("<b>{side}: {}</b> ", escaped(word(&race[side], "mode"))),
            };
            format!("<span class=\"{access}\">{verb}{}</span>", escaped(word(row, "label")))
        } else if column == thread {
            "<span class=\"call\">enqueues</span>".to_owned()
        } else {
            String::new()
        };
        format!("<div class=\"lane\">{text}</div>")
    };
    (0..lanes.len()).map(cell).collect::<String>() + "\n"
}

/// Returns the drawing of a race, or of a process without races.
fn timeline(race: &Value) -> String {
    let rows = race["timeline"].as_array().cloned().unwrap_or_default();
    if rows.is_empty() {
        return String::new();
    }
    let mut lanes = lanes(race, &rows);
    let mut text = format!("<div class=\"timeline\" style=\"--lanes: {}\">\n", lanes.len());
    for name in &lanes {
        text += &format!("<div class=\"name\">{}</div>", escaped(name));
    }
    text.push('\n');
    let (first, second) = (&race["first"], &race["second"]);
    if first.is_object() && rows.iter().all(|row| row["access"] != "first") {
        text += "<div class=\"skipped\">the first access is older than what is kept</div>\n";
    }
    for row in &rows {
        if row["access"] == "second" {
            let what = format!("missing: {} waits for the first access", word(second, "actor"));
            let (from, to) = (word(first, "actor"), word(second, "actor"));
            text += &span(&mut lanes, "missing", from, to, &what);
        }
        if let Some(count) = row["skipped"].as_u64() {
            text += &format!("<div class=\"skipped\">{count} more</div>\n");
        } else if row["lane"].is_string() {
            text += &operation(row, race, &mut lanes);
        } else {
            let (from, to) = (word(row, "from"), word(row, "to"));
            let (class, note) = match row["early"].as_bool() {
                Some(true) => ("order early", ": for what came before the first access"),
                _ => ("order", ""),
            };
            let what = format!("{to} waits for {from}{note}");
            text += &span(&mut lanes, class, from, to, &what);
        }
    }
    text + "</div>\n"
}

fn side(side: &Value, class: &str, name: &str) -> String {
    let mut text = format!(
        "<div class=\"{class}\"><h3>{name}: {} by {}</h3>\n<p class=\"quiet\">on {}, enqueued by \
         host thread {}</p>\n<ol>\n",
        escaped(word(side, "mode")),
        escaped(word(side, "label")),
        escaped(word(side, "actor")),
        side["host_thread"],
    );
    let frames: String = side["frames"].as_array().into_iter().flatten().map(frame).collect();
    let mut all = side["frames"].as_array().into_iter().flatten();
    if !all.any(|frame| frame["language"] == "python") {
        return text + &frames + "</ol></div>\n";
    }
    for line in side["stack"].as_array().into_iter().flatten() {
        text += &format!("<li>{}</li>\n", escaped(line.as_str().unwrap_or_default()));
    }
    text + "</ol>\n<details><summary>all frames</summary>\n<ol>\n"
        + &frames
        + "</ol></details></div>\n"
}

fn frame(frame: &Value) -> String {
    let place = match (frame["file"].as_str(), frame["line"].as_u64()) {
        (Some(file), Some(line)) => format!("{}:{line}", relative(file)),
        _ => word(frame, "module").to_owned(),
    };
    format!(
        "<li>{} <span class=\"quiet\">{}</span></li>\n",
        escaped(word(frame, "function")),
        escaped(&place)
    )
}

fn race(race: &Value, findings: &Findings) -> String {
    let owner = findings.test.clone().unwrap_or_else(|| format!("process {}", findings.process));
    let mut text = format!(
        "<section>\n<h2>{}</h2>\n<p class=\"quiet\">in {}",
        escaped(&title(race)),
        escaped(&owner)
    );
    if race["address"].is_u64() {
        text += &format!(
            "; {}, {} into {} of {}",
            bytes(&race["nbytes"]),
            bytes(&race["offset"]),
            escaped(word(&race["allocation"], "kind")),
            bytes(&race["allocation"]["nbytes"]),
        );
    }
    if let Some(more) = race["more_ranges"].as_u64().filter(|more| *more > 0) {
        text += &format!("; and on {}", counted(more, "more range"));
    }
    text += "</p>\n";
    text += &timeline(race);
    text += &format!("<p><b>missing:</b> {}</p>\n", escaped(word(race, "missing")));
    if let Some(more) = race["more_callers"].as_u64().filter(|more| *more > 0) {
        let pairs = counted(more, "other pair");
        text += &format!("<p class=\"quiet\">the same lines from {pairs} of callers</p>\n");
    }
    if race["note"].is_string() {
        text += &format!("<p>{}</p>\n", escaped(word(race, "note")));
    }
    text += "<div class=\"sides\">\n";
    if race["first"].is_object() {
        text += &side(&race["first"], "one", "first");
    }
    text += &side(&race["second"], "two", "second");
    text + "</div>\n</section>\n"
}

fn bytes(size: &Value) -> String {
    counted(size.as_u64().unwrap_or(0), "byte")
}

pub fn text(results: &[Findings]) -> String {
    let count: usize = results.iter().map(Findings::count).sum();
    let found = if count == 0 { "no races".to_owned() } else { counted(count, "race") };
    let mut body = String::new();
    for findings in results {
        body.extend(findings.races.iter().map(|found| race(found, findings)));
    }
    // Without a race, the page of a single process shows what ordered it.
    if let ([Findings { timeline: Some(rows), .. }], 0) = (results, count) {
        body += &format!("<section>\n{}</section>\n", timeline(&json!({"timeline": rows})));
    }
    let mut missing: Vec<(&str, u64)> = Vec::new();
    for (name, calls) in results.iter().flat_map(|findings| &findings.missing) {
        match missing.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += calls,
            None => missing.push((name, *calls)),
        }
    }
    if !missing.is_empty() {
        body += "<section>\n<h2>Functions that are not simulated</h2>\n<ul>\n";
        for (name, calls) in missing {
            body += &format!("<li>{}: called {}</li>\n", escaped(name), counted(calls, "time"));
        }
        body += "</ul>\n</section>\n";
    }
    let mut kernels: Vec<&String> = results.iter().flat_map(|findings| &findings.kernels).collect();
    kernels.sort();
    kernels.dedup();
    if !kernels.is_empty() {
        body += "<section>\n<h2>Kernels that are not declared, and were not launched</h2>\n<ul>\n";
        body.extend(kernels.iter().map(|name| format!("<li>{}</li>\n", escaped(name))));
        body += "</ul>\n</section>\n";
    }
    let unordered: Vec<String> = results.iter().filter_map(Findings::unordered_text).collect();
    if !unordered.is_empty() {
        body += "<section>\n<h2>Exchanges without order</h2>\n<ul>\n";
        body.extend(unordered.iter().map(|text| format!("<li>{}</li>\n", escaped(text))));
        body += "</ul>\n</section>\n";
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>cuda-sim: {found}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{found}</h1>\n<p class=\"quiet\">cuda-sim {}. Time goes down; an operation is drawn \
         where it was enqueued.</p>\n{body}</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}
