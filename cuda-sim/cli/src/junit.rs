//! Reports as JUnit XML: a test case for each finding, and one for each process without any.

use super::report::{Findings, place, relative, title};
use cudasim_core::shown::counted;

/// Escapes text for XML, and drops what XML cannot contain.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(letter),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

pub fn text(results: &[Findings]) -> String {
    let (mut cases, mut count, mut failures) = (String::new(), 0, 0);
    for findings in results {
        // The same in each run, so that a server can compare runs: no number of a process.
        let owner = findings.test.as_deref().or(findings.program.as_deref());
        let owner = escaped(owner.unwrap_or("process"));
        let missing = findings
            .missing
            .iter()
            .map(|(name, calls)| (name, counted(*calls, "time")))
            .map(|(name, times)| format!("{name} is not simulated and was called {times}\n"));
        let kernels =
            findings.kernels.iter().map(|name| format!("kernel {name} is not declared\n"));
        let unordered = findings.unordered_text().map(|text| text + "\n");
        let missing: String = missing.chain(kernels).chain(unordered).collect();
        let output = if missing.is_empty() {
            String::new()
        } else {
            format!("<system-out>{}</system-out>", escaped(&missing))
        };
        if findings.races.is_empty() {
            count += 1;
            cases += &format!(
                "    <testcase classname=\"{owner}\" name=\"no races\" time=\"0\">{output}\
                 </testcase>\n"
            );
        }
        for race in &findings.races {
            count += 1;
            let at = place(&race["second"]).map_or_else(String::new, |(file, line)| {
                format!(" file=\"{}\" line=\"{line}\"", escaped(&relative(&file)))
            });
            let text = escaped(race["text"].as_str().unwrap_or_default());
            let kind = escaped(race["rule"].as_str().unwrap_or("race"));
            let found = if race["remark"] == true {
                format!("<system-out>{text}</system-out>")
            } else {
                failures += 1;
                let missing = escaped(race["missing"].as_str().unwrap_or_default());
                format!("<failure type=\"{kind}\" message=\"{missing}\">{text}</failure>{output}")
            };
            let name = escaped(&title(race));
            cases += &format!(
                "    <testcase classname=\"{owner}\" name=\"{name}\"{at} time=\"0\">{found}\
                 </testcase>\n"
            );
        }
    }
    let counts = format!("tests=\"{count}\" failures=\"{failures}\" errors=\"0\"");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  \
         <testsuite name=\"cuda-sim\" {counts} skipped=\"0\" time=\"0\">\n{cases}  </testsuite>\n\
         </testsuites>\n"
    )
}
