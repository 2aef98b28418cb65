//! `cuda-sim kernels`: the kernels of programs, as lines for `--kernels=FILE`.

use crate::images::{self, Kernels, Parameter};
use cpp_demangle::{DemangleOptions, Symbol};
use cudasim_core::declarations::{Declarations, source_name};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// Returns the lines for the kernels of these files. Fails if a file cannot be read.
pub fn list(files: &[OsString]) -> Result<String, String> {
    let (mut kernels, mut stubs, mut unread) = (Kernels::new(), BTreeMap::new(), 0);
    for path in files {
        let fail = |error| format!("{}: {error}", Path::new(path).display());
        let file = std::fs::read(path).map_err(fail)?;
        unread += images::find(&file, &mut kernels);
        for stub in host_stubs(&file) {
            stubs.insert(source_name(&stub).unwrap_or_else(|| stub.clone()), stub);
        }
    }
    // What is not in an image that could be read.
    if unread > 0 {
        for (name, stub) in &stubs {
            if !kernels.contains_key(name) {
                kernels.entry(stub.clone()).or_default();
            }
        }
    }
    let mut count = BTreeMap::new();
    for shown in kernels.keys().filter_map(|name| source_name(name)) {
        *count.entry(shown).or_insert(0) += 1;
    }
    let mut lines: Vec<String> = kernels
        .iter()
        .map(|(name, parameters)| {
            // A kernel with C linkage has the types of its parameters in the name of its stub.
            let mangled = if name.starts_with("_Z") { Some(name) } else { stubs.get(name) };
            let shown = source_name(name).filter(|shown| count[shown] == 1);
            line(shown.as_ref().unwrap_or(name), mangled, parameters.as_deref())
        })
        .collect();
    lines.sort();
    if kernels.is_empty() {
        lines.push("# no kernel was found\n".to_owned());
    }
    if unread > 0 {
        lines.push(format!("# {unread} images could not be read\n"));
    }
    Ok(lines.concat())
}

/// Returns the kernels of which the symbol table of a program has the functions that launch them.
fn host_stubs(file: &[u8]) -> Vec<String> {
    let Ok(file) = object::read::elf::ElfFile64::<object::Endianness>::parse(file) else {
        return Vec::new();
    };
    let of_symbol = |name: &str| {
        let name = name.strip_prefix("_Z")?;
        let name = name.strip_prefix('L').unwrap_or(name);
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = name[..digits].parse().ok()?;
        let name = name[digits..].get(..length)?;
        name.strip_prefix("__device_stub_").filter(|name| name.starts_with("_Z")).map(str::to_owned)
    };
    file.symbols().filter_map(|symbol| of_symbol(symbol.name().ok()?)).collect()
}

/// Returns the declaration of a kernel, after a comment with its signature if that says more.
fn line(name: &str, mangled: Option<&String>, parameters: Option<&[Parameter]>) -> String {
    let signature = mangled.and_then(|name| {
        let symbol = Symbol::new(name).ok()?;
        symbol.demangle_with_options(&DemangleOptions::new().no_return_type()).ok()
    });
    let types = signature
        .as_deref()
        .and_then(types)
        .filter(|types| parameters.is_none_or(|parameters| parameters.len() == types.len()));
    let (mut list, mut says_less) = (Vec::new(), false);
    for index in 0..types.as_ref().map_or(parameters.map_or(0, <[_]>::len), Vec::len) {
        let known = parameters.map(|parameters| &parameters[index]);
        let text = types.as_ref().and_then(|types| declared(types[index]));
        says_less |= text.is_none();
        list.push(text.unwrap_or_else(|| match known {
            Some(Parameter { text: Some(text), .. }) => (*text).to_owned(),
            Some(Parameter { size: 8, .. }) if types.is_none() => "void*".to_owned(),
            Some(Parameter { size, .. }) => format!("byte[{size}]"),
            None => "?".to_owned(),
        }));
    }
    let declaration = format!("{name}({})", list.join(", "));
    let is_valid =
        Declarations::parse(&declaration).is_ok() && (types.is_some() || parameters.is_some());
    let comment = match signature {
        Some(signature) if says_less || !is_valid || name.starts_with("_Z") => {
            format!("# {signature}\n")
        }
        _ => String::new(),
    };
    // A size that is not known is for the user to fill in.
    format!("{comment}{}{declaration}\n", if is_valid { "" } else { "# " })
}

fn types(signature: &str) -> Option<Vec<&str>> {
    let inner = signature.strip_suffix(')')?;
    let mut depth = 1;
    let open = inner.char_indices().rev().find(|(_, c)| {
        depth += match c {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    let list = &inner[open.0 + 1..];
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() && last != "void" {
        found.push(last);
    }
    Some(found)
}

/// Returns a type as in a declaration; None for one that is passed by value and not known.
fn declared(text: &str) -> Option<String> {
    let is_known = |text: &str| Declarations::parse(&format!("k({text})")).is_ok();
    let is_pointer = text.ends_with('*');
    if !is_pointer {
        return is_known(text).then(|| text.to_owned());
    }
    let pointee = text[..text.len() - 1].trim_end();
    let (pointee, start) = match pointee.strip_suffix(" const") {
        // As it is usually written.
        Some(pointee) if !pointee.contains('*') => (pointee, "const "),
        Some(pointee) => return Some(format!("{pointee} const*")).filter(|text| is_known(text)),
        None => (pointee, ""),
    };
    let found = format!("{start}{pointee}*");
    let is_plain = !pointee.contains(['<', '(', '{', '[', ' ']) || is_known(pointee);
    Some(if is_plain && is_known(&found) { found } else { format!("{start}void*") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let of = |name: &str, mangled: &str, sizes: &[usize]| {
            let sizes: Vec<_> =
                sizes.iter().map(|size| Parameter { size: *size, text: None }).collect();
            let all = (!sizes.is_empty()).then_some(sizes.as_slice());
            line(name, Some(&mangled.to_owned()).filter(|name| !name.is_empty()), all)
        };
        assert_eq!(
            of("saxpy", "_Z5saxpyfPKfPfi", &[]),
            "saxpy(float, const float*, float*, int)\n"
        );
        assert_eq!(
            of("_Z4fillIfEvPT_S0_m", "_Z4fillIfEvPT_S0_m", &[8, 4, 8]),
            "# fill<float>(float*, float, unsigned long)\n\
             _Z4fillIfEvPT_S0_m(float*, float, unsigned long)\n"
        );
        assert_eq!(
            of("ns::packed", "_ZN2ns6packedENS_1PE", &[24]),
            "# ns::packed(ns::P)\nns::packed(byte[24])\n"
        );
        assert_eq!(
            of("ns::packed", "_ZN2ns6packedENS_1PE", &[]),
            "# ns::packed(ns::P)\n# ns::packed(?)\n"
        );
        assert_eq!(of("plain", "", &[8, 4, 12]), "plain(void*, byte[4], byte[12])\n");
        assert_eq!(of("none", "", &[]), "# none()\n");
        assert_eq!(
            of("k", "_Z1kPKPKfPPfPKP1PPFvvE", &[8; 4]),
            "# k(float const* const*, float**, P* const*, void (*)())\n\
             k(float const* const*, float**, P* const*, byte[8])\n"
        );
    }
}
