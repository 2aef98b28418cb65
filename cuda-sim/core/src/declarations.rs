//! Kernels that a text file declares (`--kernels=FILE`), a line for each, such as
//! `saxpy(float a, const float* x[n], float* y[n], int n)`: the types of the parameters as in C, and
//! the elements that the kernel accesses through each pointer.

mod expression;
mod line;

use crate::access::{Access, WRITE};
use crate::cudasim::Grid;
use expression::Expression;
use std::collections::HashMap;
use std::path::Path;

/// The value of written bytes whose contents are not known.
const UNKNOWN: u8 = crate::memory::UNKNOWN;

/// The kernels of a file, by name.
#[derive(Default)]
pub struct Declarations(HashMap<String, Kernel>);

pub struct Kernel {
    line: usize,
    pub sizes: Vec<usize>,
    /// The numbers and pointers in the arguments.
    values: Vec<Value>,
}

/// A number or a pointer: an argument, or a member of one.
struct Value {
    argument: usize,
    /// The position in the argument, and the number of bytes there.
    at: usize,
    size: usize,
    kind: Kind,
}

enum Kind {
    Signed,
    Unsigned,
    /// Neither a pointer nor an integer.
    Other,
    Pointer(Pointer),
}

/// The accesses through a pointer.
struct Pointer {
    mode: u32,
    /// The size of an element; 0: not known.
    element: u64,
    /// The first element, and their number. None: from the pointer to the end of the allocation.
    extent: Option<(Option<Expression>, Expression)>,
    /// The value of the bytes after a write. None: they do not change.
    fill: Option<u8>,
}

#[derive(Default)]
pub struct Accesses {
    pub all: Vec<Access>,
    /// Those that change bytes, with the new value.
    pub fills: Vec<(u8, Access)>,
}

impl Declarations {
    /// Reads a file. Fails with its name, the line and the fault.
    pub fn read(path: &Path) -> Result<Declarations, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Declarations::parse(&String::from_utf8_lossy(&text))
            .map_err(|(line, fault)| format!("{}:{line}: {fault}", path.display()))
    }

    /// Fails with the number of the line and the fault.
    pub fn parse(text: &str) -> Result<Declarations, (usize, String)> {
        let mut found = Declarations::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if line.is_empty() {
                continue;
            }
            let (name, kernel) = line::kernel(number, line).map_err(|fault| (number, fault))?;
            if let Some(other) = found.0.insert(name.clone(), kernel) {
                let fault = format!("{name} is declared in line {}, too", other.line);
                return Err((number, fault));
            }
        }
        Ok(found)
    }

    /// Returns the kernel that has this name in a module: mangled, or as in the sources.
    pub fn find(&self, name: &[u8]) -> Option<&Kernel> {
        if self.0.is_empty() {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?;
        self.0.get(name).or_else(|| self.0.get(&source_name(name)?))
    }
}

/// Returns the name of a mangled function in the sources, with its namespaces but without template
/// arguments and unnamed namespaces.
pub fn source_name(mangled: &str) -> Option<String> {
    let name = mangled.strip_prefix("_Z")?;
    let name = name.strip_prefix('L').unwrap_or(name);
    let (mut rest, nested) = name.strip_prefix('N').map_or((name, false), |rest| (rest, true));
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let part = rest.get(digits..digits.checked_add(length)?)?;
        if !part.starts_with("_GLOBAL__N_") {
            parts.push(part);
        }
        rest = &rest[digits + length..];
        if !nested {
            break;
        }
    }
    (!parts.is_empty()).then(|| parts.join("::"))
}

impl Kernel {
    /// Returns the accesses of a launch. `argument` returns the bytes of an argument, and
    /// `allocation` the end of the allocation that contains an address.
    pub fn accesses<'a>(
        &self,
        grid: &Grid,
        argument: impl Fn(usize) -> &'a [u8],
        allocation: impl Fn(u64) -> Option<u64>,
    ) -> Accesses {
        let mut found = Accesses::default();
        let bits = |value: &Value| {
            let mut bytes = [0; 8];
            let size = value.size.min(8);
            bytes[..size].copy_from_slice(&argument(value.argument)[value.at..value.at + size]);
            u64::from_le_bytes(bytes)
        };
        let number = |value: &Value| match value.kind {
            Kind::Signed => {
                let unused = 64 - 8 * value.size.min(8);
                i128::from((bits(value) << unused) as i64 >> unused)
            }
            _ => i128::from(bits(value)),
        };
        let variable = |index: usize| number(&self.values[index]);
        for value in &self.values {
            let Kind::Pointer(pointer) = &value.kind else { continue };
            let address = bits(value);
            // A pointer that a launch leaves out.
            if address == 0 {
                continue;
            }
            let (from, size) = match &pointer.extent {
                None => match allocation(address) {
                    Some(end) => (address, end - address),
                    None => continue,
                },
                Some((first, count)) => {
                    let scale = |elements: i128| elements.saturating_mul(pointer.element.into());
                    let of = |expression: &Expression| scale(expression.value(&variable, grid));
                    let first = first.as_ref().map_or(0, of).saturating_add(address.into());
                    let size = of(count).clamp(0, u64::MAX.into());
                    (first.clamp(0, u64::MAX.into()) as u64, size as u64)
                }
            };
            if size == 0 {
                continue;
            }
            let access = Access::range(from, size, pointer.mode);
            found.all.push(access);
            if let (true, Some(byte)) = (pointer.mode & WRITE != 0, pointer.fill) {
                found.fills.push((byte, access));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::READ;

    /// Returns the accesses of a launch with 3 blocks of 4 threads: address, size, mode. Arguments
    /// are numbers of 8 bytes; an allocation ends at each multiple of 1000.
    fn accesses(line: &str, arguments: &[i64]) -> Vec<(u64, u64, u32)> {
        let found = Declarations::parse(line).unwrap_or_else(|fault| panic!("{fault:?}"));
        let bytes: Vec<[u8; 8]> = arguments.iter().map(|number| number.to_le_bytes()).collect();
        let grid = Grid { grid: [3, 1, 1], block: [2, 2, 1], shared_bytes: 0 };
        let kernel = found.find(b"k").expect("the kernel is named k");
        let end = |address: u64| Some(address.next_multiple_of(1000));
        let found = kernel.accesses(&grid, |argument| bytes[argument].as_slice(), end);
        found.all.iter().map(|access| (access.address, access.nbytes, access.mode)).collect()
    }

    #[test]
    fn extents() {
        let both = READ | WRITE;
        for (line, arguments, expected) in [
            ("k(const float* x)", &[100][..], (100, 900, READ)),
            ("k(float *x)", &[100], (100, 900, both)),
            ("k(float* x[n], long n)", &[100, 5], (100, 20, both)),
            ("k(double x[n], int n)", &[100, 5], (100, 40, both)),
            ("k(float* x[i : n], long i, long n)", &[100, 2, 5], (108, 20, both)),
            ("k(float* x[i:n], long i, long n)", &[100, -2, 5], (92, 20, both)),
            ("k(char* x[blocks * threads])", &[100], (100, 12, both)),
            ("k(char* x[gridDim.x + blockDim.y * 2])", &[100], (100, 7, both)),
            ("k(char* x[(n + 3) / 4 - 1], unsigned n)", &[100, 9], (100, 2, both)),
            ("k(void const* x[n - -1], signed char n)", &[100, 3], (100, 4, READ)),
            ("k(float* const* x[n], size_t n)", &[100, 3], (100, 24, READ)),
            ("k(const float** x[n], size_t n)", &[100, 3], (100, 24, both)),
            ("k(const volatile float2* __restrict__ x[1])", &[100], (100, 8, READ)),
            ("__global__ void k(ns::pair<int, float>* x); # all", &[100], (100, 900, both)),
            ("k(int* x[n] = 0, int n)", &[100, 3], (100, 12, both)),
        ] {
            assert_eq!(accesses(line, arguments), [expected], "{line}");
        }
        for (line, arguments) in [
            ("k(float* x[n], int n)", &[100, 0][..]),
            ("k(float* x[n], int n)", &[100, -5]),
            ("k(float* x[n / m], int n, int m)", &[100, 5, 0]),
            ("k(float* x, int n)", &[0, 5]),
            ("k(float x, byte[8])", &[0, 5]),
            ("k()", &[]),
        ] {
            assert_eq!(accesses(line, arguments), [], "{line}");
        }
    }

    #[test]
    fn fills_and_structures() {
        let text =
            "k({ const float* in[n], int n, char* out[n] = 7, short* kept[1] = same } p, byte[3])";
        let found = Declarations::parse(text).unwrap_or_else(|fault| panic!("{fault:?}"));
        let kernel = found.find(b"_ZN3foo1kEPf").or(found.find(b"_ZL1kPf")).expect("k");
        assert_eq!(kernel.sizes, [32, 3]);
        let numbers = [100u64, 5, 200, 300];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let found = kernel.accesses(&Grid::default(), |_| &bytes, |_| None);
        let of = |access: &Access| (access.address, access.nbytes, access.mode);
        let (both, all) = (READ | WRITE, found.all.iter().map(of).collect::<Vec<_>>());
        assert_eq!(all, [(100, 20, READ), (200, 5, both), (300, 2, both)]);
        let fills: Vec<_> = found.fills.iter().map(|(byte, access)| (*byte, of(access))).collect();
        assert_eq!(fills, [(7, (200, 5, both))]);
    }

    #[test]
    fn names() {
        for (mangled, name) in [
            ("_Z5saxpyfPKfPfi", "saxpy"),
            ("_ZL6hiddenPKiPi", "hidden"),
            ("_Z4fillIfEvPT_S0_m", "fill"),
            ("_ZN2ns6packedENS_1PE", "ns::packed"),
            ("_ZN40_GLOBAL__N__74d85173_8_saxpy_cu_38f7764e4anonEPKiPi", "anon"),
            ("_ZN12_GLOBAL__N_11kIiEEvv", "k"),
        ] {
            assert_eq!(source_name(mangled).as_deref(), Some(name));
        }
        for wrong in ["plain", "_Z", "_ZN", "_Z9short", "_Z99999999999999999999k", "_ZNE"] {
            assert_eq!(source_name(wrong), None);
        }
    }

    #[test]
    fn faults() {
        for (text, line, fault) in [
            ("\nk", 2, "expected NAME(PARAMETERS)"),
            ("k(int n", 1, "expected ) at the end"),
            ("k(int n) more", 1, "found more after the parameters"),
            ("(int n)", 1, "expected the name of a kernel"),
            ("k(int n)\n# k\nk()", 3, "k is declared in line 1, too"),
            ("k(P p)", 1, "the size of P is not known: write byte[SIZE]"),
            ("k(P* p[3])", 1, "the size of P is not known: use char*, and bytes in the brackets"),
            ("k(int n, float* x[m])", 1, "found m, expected a number, a parameter or blocks"),
            ("k(float n, float* x[n])", 1, "n is no integer"),
            ("k(float* x[3 + ])", 1, "expected a number"),
            ("k(float* x[3)", 1, "expected ]"),
            ("k(float* x[3 4])", 1, "found 4, expected an operator"),
            ("k(int n[3] = 256)", 1, "found 256, expected 0 to 255, or same"),
            ("k(int n = 0)", 1, "n is no pointer that is written through"),
            ("k(float* x, int)", 1, ""),
            ("k(int x, char* x)", 1, "two parameters have the name x"),
            ("k(int,)", 1, "expected a parameter"),
            ("k({int n)", 1, "expected }"),
            ("k(byte[x])", 1, "found byte[x], expected a number of bytes, 1 to 65536"),
        ] {
            match Declarations::parse(text) {
                Ok(_) => assert_eq!(fault, "", "{text}"),
                Err((number, found)) => {
                    assert!(!fault.is_empty() && found.contains(fault), "{text}: {found}");
                    assert_eq!(number, line, "{text}");
                }
            }
        }
    }
}
