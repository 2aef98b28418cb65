//! Reports as SARIF 2.1.0, which code hosts and editors show beside the source.

use super::report::{Findings, place, relative, title, user_frames};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Returns a path with everything escaped that URIs do not allow.
fn percent(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' | b'+' => {
                out.push(byte.into())
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Returns the URI of a file: relative to the working folder, if it is there.
fn uri(file: &str) -> String {
    let path = percent(&relative(file));
    if path.starts_with('/') { format!("file://{path}") } else { path }
}

fn physical(file: &str, line: u64) -> Value {
    let mut artifact = json!({"uri": uri(file)});
    if !relative(file).starts_with('/') {
        artifact["uriBaseId"] = "SRCROOT".into();
    }
    json!({"artifactLocation": artifact, "region": {"startLine": line.max(1)}})
}

/// Returns the location of an access; without lines, the name of its function alone.
fn location(side: &Value, message: &str) -> Value {
    let mut found = json!({"message": {"text": message}});
    if let Some((file, line)) = place(side) {
        found["physicalLocation"] = physical(&file, line);
    }
    let frame = user_frames(side).first().copied();
    if let Some(function) = frame.and_then(|frame| frame["function"].as_str()) {
        found["logicalLocations"] =
            json!([{"name": function, "fullyQualifiedName": function, "kind": "function"}]);
    }
    found
}

fn stack(side: &Value, message: &str) -> Value {
    let frame = |frame: &Value| {
        let function = frame["function"].as_str().unwrap_or("?");
        let mut place = json!({"logicalLocations": [{"fullyQualifiedName": function}]});
        if let (Some(file), Some(line)) = (frame["file"].as_str(), frame["line"].as_u64()) {
            place["physicalLocation"] = physical(file, line);
        }
        let mut found = json!({"location": place});
        if let Some(module) = frame["module"].as_str() {
            found["module"] = module.into();
        }
        found
    };
    let frames: Vec<Value> = side["frames"].as_array().into_iter().flatten().map(frame).collect();
    json!({"message": {"text": message}, "frames": frames})
}

/// Functions of each side that tell findings apart. Recursion may be as deep as it likes.
const FRAMES: usize = 4;

/// Returns a number that is the same for the same two functions in another run, also after their
/// lines have moved: lines, addresses and numbers of streams are not part of it.
fn hash(race: &Value) -> u64 {
    let mut text = race["rule"].to_string();
    for side in [&race["first"], &race["second"]] {
        text += &format!("\n{}", side["label"]);
        let mut functions: Vec<String> = Vec::new();
        for frame in user_frames(side) {
            let module = frame["module"].as_str().map(|name| name.split("+0x").next());
            let file = frame["file"].as_str().map(relative);
            let function = format!("\n{file:?} {module:?} {}", frame["function"]);
            if functions.len() < FRAMES && !functions.contains(&function) {
                functions.push(function);
            }
        }
        text.extend(functions);
    }
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The findings of a run, by their hashes: those in the same two functions are told apart by their
/// order in the files.
struct Fingerprints(BTreeMap<u64, BTreeSet<Places>>);

/// The places of both sides.
type Places = [Option<(String, u64)>; 2];

impl Fingerprints {
    fn of<'a>(races: impl Iterator<Item = &'a Value>) -> Fingerprints {
        let mut found = Fingerprints(BTreeMap::new());
        races.for_each(|race| {
            found.0.entry(hash(race)).or_default().insert(places(race));
        });
        found
    }

    fn get(&self, race: &Value) -> String {
        let (hash, own) = (hash(race), places(race));
        let before = self.0[&hash].iter().take_while(|other| **other != own).count();
        format!("{hash:016x}:{}", before + 1)
    }
}

fn places(race: &Value) -> Places {
    [place(&race["first"]), place(&race["second"])]
}

fn side_text(side: &Value) -> String {
    let text = |name: &str| side[name].as_str().unwrap_or("?").to_owned();
    format!("{} by {}, on {}", text("mode"), text("label"), text("actor"))
}

fn result(
    race: &Value,
    findings: &Findings,
    rules: &[Value],
    fingerprints: &Fingerprints,
) -> Value {
    let rule = race["rule"].as_str().unwrap_or("race");
    let index = rules.iter().position(|known| known["id"] == rule).unwrap_or(0);
    let second = side_text(&race["second"]);
    let mut message = title(race);
    message += &format!(". Missing: {}", race["missing"].as_str().unwrap_or_default());
    let mut stacks = vec![stack(&race["second"], &second)];
    let mut found = json!({
        "ruleId": rule, "ruleIndex": index,
        "level": if race["remark"] == true { "note" } else { "error" },
        "message": {"text": message},
        "locations": [location(&race["second"], &second)],
        "partialFingerprints": {"cudaSimPlaces/v2": fingerprints.get(race)},
        "properties": {"process": findings.process, "report": race["text"]},
    });
    if let Some(first) = race.get("first") {
        let text = side_text(first);
        found["relatedLocations"] = json!([location(first, &format!("first: {text}"))]);
        found["relatedLocations"][0]["id"] = 1.into();
        stacks.push(stack(first, &text));
    }
    found["stacks"] = stacks.into();
    if let Some(test) = &findings.test {
        found["properties"]["test"] = test.as_str().into();
    }
    found
}

pub fn text(results: &[Findings]) -> String {
    let mut rules = vec![json!({
        "id": "race", "name": "DataRace",
        "shortDescription": {"text": "Two accesses to the same bytes that nothing orders"},
        "defaultConfiguration": {"level": "error"},
    })];
    let races = || {
        results.iter().flat_map(|findings| findings.races.iter().map(move |race| (race, findings)))
    };
    for (race, _) in races() {
        let Some(rule) = race["rule"].as_str() else { continue };
        if rules.iter().all(|known| known["id"] != rule) {
            rules.push(json!({"id": rule, "shortDescription": {"text": race["sentence"]}}));
        }
    }
    let fingerprints = Fingerprints::of(races().map(|(race, _)| race));
    let results: Vec<Value> =
        races().map(|(race, findings)| result(race, findings, &rules, &fingerprints)).collect();
    let here = std::env::current_dir().unwrap_or_default();
    let base = format!("file://{}/", percent(&here.to_string_lossy()));
    let log = json!({
        "$schema":
            "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/\
             sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "cuda-sim", "version": env!("CARGO_PKG_VERSION"), "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": {"SRCROOT": {"uri": base}},
            "results": results,
        }],
    });
    format!("{log:#}\n")
}
