//! Redirection of each module: its functions get jumps into the replacement library, and
//! `--explain` prints which runtime library it has.

use crate::elf::{Elf, Function, Segment};
use crate::modules::{self, Module};
use crate::patch::{self, JUMP, Stubs};
use crate::slots::Library;
use crate::survey::{self, Runtime};
use libc::c_char;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

/// The settings of `cuda-sim run`.
struct Settings {
    /// The replacement libraries and their major versions.
    libraries: Vec<(u32, &'static Library)>,
    explain: bool,
    /// Where `cuda-sim --missing` wants the names of functions that are not there.
    missing: Option<String>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The modules that were seen, by their addresses, with the stubs of those that were changed.
static SEEN: Mutex<BTreeMap<(usize, usize), Option<Stubs>>> = Mutex::new(BTreeMap::new());

/// Returns the value of a variable of the environment.
///
/// # Safety
///
/// `environment` is NULL or an array of NUL-terminated texts that ends with NULL.
unsafe fn variable(mut environment: *const *const c_char, name: &str) -> Option<String> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the loop ends at the NULL that the caller guarantees.
        let entry = unsafe { *environment };
        if entry.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees NUL-terminated texts.
        let text = unsafe { CStr::from_ptr(entry) }.to_string_lossy();
        if let Some(value) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
        // SAFETY: this was not the last entry.
        environment = unsafe { environment.add(1) };
    }
}

/// Changes the modules of the program, and those that it loads later.
///
/// # Safety
///
/// `environment` is NULL or an array of NUL-terminated texts that ends with NULL.
pub unsafe fn start(environment: *const *const c_char) {
    // SAFETY: the caller guarantees the array.
    let get = |name| unsafe { variable(environment, name) };
    let Some(folder) = get("CUDASIM_REDIRECT") else { return };
    let library = |version: u32| {
        Library::open(&format!("{folder}/libcudart.so.{version}")).map(|found| (version, found))
    };
    let settings = Settings {
        libraries: [12, 13].into_iter().filter_map(library).collect(),
        explain: get("CUDASIM_EXPLAIN").is_some(),
        missing: get("CUDASIM_MISSING_LOG"),
    };
    if SETTINGS.set(settings).is_err() {
        return;
    }
    changed();
    if !modules::on_change(changed) {
        say("modules that are loaded later are not seen: the dynamic linker is not known");
    }
    if explains() {
        // SAFETY: the function has no preconditions.
        unsafe { libc::atexit(sum_up) };
    }
}

fn explains() -> bool {
    SETTINGS.get().is_some_and(|settings| settings.explain)
}

fn say(text: &str) {
    if explains() {
        eprintln!("cuda-sim: {text}");
    }
}

extern "C" fn sum_up() {
    let seen = SEEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let redirected = seen.values().filter(|stubs| stubs.is_some()).count();
    say(&format!("modules loaded: {}; redirected: {redirected}", seen.len()));
}

/// Looks at new modules and forgets those that are gone.
extern "C" fn changed() {
    let Some(loaded) = modules::list() else { return };
    let mut seen = SEEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let addresses: BTreeSet<(usize, usize)> =
        loaded.iter().map(|module| (module.bias, module.dynamic)).collect();
    seen.retain(|address, _| addresses.contains(address));
    for module in loaded {
        let address = (module.bias, module.dynamic);
        seen.entry(address).or_insert_with(|| serve(&module));
    }
}

/// Changes one module and explains it.
fn serve(module: &Module) -> Option<Stubs> {
    let settings = SETTINGS.get()?;
    let shown = std::fs::canonicalize(&module.path);
    let path = shown.map_or_else(|_| module.path.clone(), |path| path.display().to_string());
    let mut stubs = None;
    let elf = Elf::open(&module.path).ok()?;
    let text = match survey::runtime(&elf, settings.explain) {
        Err(error) => format!("cannot be read: {error}"),
        Ok(Runtime::None) => return None,
        Ok(Runtime::Needs(name)) => format!("needs {name}"),
        Ok(Runtime::Is { name, nvidias: true }) => format!(
            "is NVIDIA's {name}, which does not start on the simulated driver: use --runtime={}",
            name.strip_prefix("libcudart.so.").unwrap_or("13")
        ),
        Ok(Runtime::Is { name, .. }) => format!("is a replacement of {name}"),
        Ok(Runtime::Loads) => "loads a runtime library by itself: use --runtime".to_owned(),
        Ok(Runtime::Stripped) => {
            "carries NVIDIA's runtime library without a symbol table, which cannot be redirected: \
             link it without -s, or to libcudart.so, and do not run strip on it"
                .to_owned()
        }
        Ok(Runtime::Inside { functions }) => match redirect(module, &elf, &functions, settings) {
            Ok(done) => {
                log_missing(settings, &path, &done.missing);
                let text = done.to_string();
                stubs = Some(done.stubs);
                text
            }
            Err(reason) => {
                format!("carries a runtime library that cannot be redirected: {reason}")
            }
        },
    };
    say(&format!("{path} {text}"));
    stubs
}

/// Writes the names of functions that a module carries and no replacement has, for
/// `cuda-sim --missing`.
fn log_missing(settings: &Settings, path: &str, names: &[String]) {
    let Some(log) = &settings.missing else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(log);
    if let Ok(mut file) = file {
        for name in names {
            // A line that cannot be written is not worth an error in the program.
            let _ = writeln!(file, "called {name} (carried by {path})");
        }
    }
}

/// A module whose functions were redirected.
struct Redirected {
    version: u32,
    count: usize,
    /// Functions that return a constant: they are smaller than a jump.
    constant: Vec<String>,
    /// Functions that the replacement library does not have.
    missing: Vec<String>,
    stubs: Stubs,
}

impl std::fmt::Display for Redirected {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (version, count) = (self.version, self.count);
        let ending = if count == 1 { "" } else { "s" };
        write!(
            to,
            "carries the runtime library of CUDA {version}: {count} function{ending} redirected"
        )?;
        for (names, reason) in [
            (&self.constant, "unchanged, because they return a constant"),
            (&self.missing, "missing in the replacement"),
        ] {
            if !names.is_empty() {
                write!(to, "; {reason}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// Writes a jump into each function that the replacement library has.
fn redirect(
    module: &Module,
    elf: &Elf,
    functions: &[Function],
    settings: &Settings,
) -> Result<Redirected, &'static str> {
    let versions: Vec<(u32, &BTreeSet<String>)> =
        settings.libraries.iter().map(|(version, library)| (*version, &library.names)).collect();
    let version = survey::version(functions, &versions)?;
    let library = settings.libraries.iter().find(|found| found.0 == version);
    let (_, library) = library.ok_or("there is no replacement library")?;

    let mut known: Vec<(&Function, usize)> = Vec::new();
    let (mut constant, mut missing) = (Vec::new(), Vec::new());
    let mut segment: Option<&Segment> = None;
    for function in functions {
        if library.slot(&function.name).is_none() {
            missing.push(function.name.clone());
            continue;
        }
        if function.size < JUMP as u64 {
            constant.push(function.name.clone());
            continue;
        }
        let (own, offset) = elf.place(function.address).ok_or("a function is not mapped")?;
        if !own.executable || segment.is_some_and(|other| other.address != own.address) {
            return Err("its functions are not in one segment of code");
        }
        let end = own.address.saturating_add(own.file_size);
        if function.address.saturating_add(function.size) > end {
            return Err("a function extends beyond its segment");
        }
        segment = Some(own);
        let address = module.bias.wrapping_add(function.address as usize);
        // SAFETY: the dynamic linker mapped the segment, which contains the function; its code is
        // readable and was not changed: if the file is another one than was mapped, this may be
        // other code of the segment, or the end of the process that mapped too little.
        let code = unsafe { std::slice::from_raw_parts(address as *const u8, JUMP) };
        if !elf.has_at(offset, code) {
            return Err("the file is not the one that was loaded");
        }
        known.push((function, address));
    }
    let segment = segment.ok_or("it has no known function")?;
    if !segment.readable {
        return Err("its code is not readable");
    }
    known.sort_by_key(|(_, address)| *address);
    if known.windows(2).any(|pair| pair[0].1 + JUMP > pair[1].1) {
        return Err("the linker merged functions");
    }

    let low = module.bias.wrapping_add(segment.address as usize);
    let high = low.wrapping_add(segment.file_size as usize);
    let mut stubs = Stubs::new(low, high, known.len()).ok_or("there is no memory near it")?;
    let mut jumps = Vec::with_capacity(known.len());
    for (function, address) in &known {
        let slot = library.slot(&function.name);
        let stub = slot.and_then(|slot| stubs.add(slot));
        let jump = stub.and_then(|stub| patch::jump(*address, stub));
        jumps.push((*address, jump.ok_or("a jump does not reach")?));
    }
    let mut rights = libc::PROT_READ | libc::PROT_EXEC;
    if segment.writable {
        rights |= libc::PROT_WRITE;
    }
    // SAFETY: all jumps lie in the segment of code of this module, whose initializers did not run:
    // it is being loaded, or this is the first initializer of the process.
    if !stubs.seal() || !unsafe { patch::write(&jumps, rights) } {
        return Err("its code cannot be changed");
    }
    Ok(Redirected { version, count: jumps.len(), constant, missing, stubs })
}
