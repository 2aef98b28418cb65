//! The manual page, which is made of the help.

const DESCRIPTION: &str = "\
The simulated driver executes memory, streams, events, copies and graphs on a machine without a GPU. Kernels are
not executed. The race checker reports every missing wait between two streams.";

/// Column from which the text beside an option has a list of its own.
const LIST: usize = crate::options::WIDTH + 1;

/// Returns the page of a help. Indentation gives the kinds of its lines: 4 a command, 8 text or an
/// option, more the text beside an option.
pub fn page(help: &str) -> String {
    let (title, help) = help.split_once('\n').unwrap_or((help, ""));
    let (name, about) = title.split_once(": ").unwrap_or((title, ""));
    let (mut synopsis, mut commands, mut before) = (Vec::new(), String::new(), 0);
    for line in help.lines().filter(|line| !line.trim().is_empty()) {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        let (head, rest) = text.split_once("  ").unwrap_or((text, ""));
        let rest = rest.trim();
        match (before < LIST, indent < LIST) {
            (true, false) => commands += ".RS\n",
            (false, true) => commands += ".RE\n",
            _ => {}
        }
        before = indent;
        if indent == 4 {
            synopsis.push(usage(head));
            commands += &format!(".SS {}\n", usage(head));
            if !rest.is_empty() {
                commands += &format!("{}\n", escape(rest));
            }
        } else if indent >= LIST || head.starts_with('-') && !rest.is_empty() {
            commands += &format!(".TP\n\\fB{}\\fR\n{}\n", escape(head), escape(rest));
        } else {
            commands += &format!("{}\n", escape(text));
        }
    }
    if before >= LIST {
        commands += ".RE\n";
    }
    format!(
        ".TH {} 1\n.SH NAME\n{}, cai\\-race \\- {}\n.SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{DESCRIPTION}\n\
         .SH COMMANDS\n{commands}",
        name.to_uppercase(),
        escape(name),
        escape(about),
        synopsis.join("\n.br\n"),
    )
}

fn escape(text: &str) -> String {
    let mark = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{mark}{}", text.replace('\\', "\\e").replace('-', "\\-"))
}

/// A command in bold, up to what stands for a value.
fn usage(line: &str) -> String {
    let line = escape(line);
    match line.find('[') {
        Some(at) => format!("\\fB{}\\fR{}\\fR", &line[..at], &line[at..]),
        None => format!("\\fB{line}\\fR"),
    }
}
