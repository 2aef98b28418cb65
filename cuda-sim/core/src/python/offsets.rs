//! Where versions of CPython have what a frame is read from.

/// Where structures of the interpreter have their members, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Offsets {
    /// Of a thread: its identity, and its frame, if that is not in what the latter points to.
    pub thread: usize,
    pub frame: usize,
    pub inner: Option<usize>,
    /// Of a frame.
    pub previous: usize,
    pub code: usize,
    pub instruction: Instruction,
    /// The kind of the frame, and the least that is not one of Python code.
    pub owner: Option<(usize, u8)>,
    /// The number of the copy of the bytecode that the frame runs.
    pub copy: Option<usize>,
    /// Of a code object.
    pub file: usize,
    pub name: usize,
    pub lines: usize,
    pub first: usize,
    pub copies: usize,
    /// Of any object, a text, and bytes.
    pub kind: usize,
    pub length: usize,
    pub ascii: usize,
    pub size: usize,
    pub bytes: usize,
}

/// The place in the bytecode.
#[derive(Clone, Copy)]
pub enum Instruction {
    /// A number of units of some bytes.
    Number { at: usize, unit: usize },
    /// A pointer, and where the bytecode begins in the code object.
    Pointer { at: usize, begins: usize },
}

impl Default for Instruction {
    fn default() -> Self {
        Instruction::Number { at: 0, unit: 1 }
    }
}

impl Offsets {
    /// Returns those of a version before 3.13.
    #[rustfmt::skip]
    pub fn fixed(minor: u32) -> Option<Offsets> {
        let old = Offsets {
            kind: 8, length: 16, ascii: 48, size: 16, bytes: 32, ..Offsets::default()
        };
        let oldest = Offsets {
            thread: 176, frame: 24, previous: 24, code: 32, file: 104, name: 112, lines: 120,
            first: 40, ..old
        };
        Some(match minor {
            9 => Offsets { instruction: Instruction::Number { at: 104, unit: 1 }, ..oldest },
            10 => Offsets { instruction: Instruction::Number { at: 96, unit: 2 }, ..oldest },
            11 => Offsets {
                thread: 152, frame: 56, inner: Some(8), previous: 48, code: 32,
                instruction: Instruction::Pointer { at: 56, begins: 184 }, file: 112, name: 128,
                lines: 136, first: 72, ..old
            },
            12 => Offsets {
                thread: 136, frame: 56, inner: Some(0), previous: 8, code: 0,
                instruction: Instruction::Pointer { at: 56, begins: 192 }, owner: Some((70, 3)),
                file: 112, name: 128, lines: 136, first: 68, ascii: 40, ..old
            },
            _ => return None,
        })
    }

    /// Returns those that the interpreter publishes, from `word(0)` on, if they are of this
    /// version: their order differs, also between previews.
    pub fn published(minor: u32, word: impl Fn(usize) -> usize) -> Option<Offsets> {
        if word(0) != usize::from_le_bytes(*b"xdebugpy")
            || word(1) >> 16 != (3 << 8 | minor as usize)
            || word(1) >> 4 & 0xf != 0xf
        {
            return None;
        }
        // Members of the parts: the runtime, an interpreter, a thread, a frame, a code object.
        let (interpreter, thread, frame, code) = match minor {
            13 => (13, 9, 6, 10),
            14 => (16, 9, 8, 11),
            15 => (16, 17, 8, 11),
            _ => return None,
        };
        let threads = 3 + 3 + interpreter;
        let frames = threads + thread;
        let codes = frames + frame;
        let objects = codes + code;
        // An object, types, a tuple, a list, a set, a dictionary, a float, an integer.
        let types = if minor == 15 { 8 } else { 4 };
        let set = if minor == 13 { 0 } else { 4 };
        let bytes = objects + 2 + types + 3 + 3 + set + 3 + 2 + 3;
        let texts = bytes + 3;
        let copies = word(2) != 0 && minor > 13;
        Some(Offsets {
            thread: word(threads + if minor == 15 { 8 } else { 5 }),
            frame: word(threads + 4),
            inner: None,
            previous: word(frames + 1),
            code: word(frames + 2),
            instruction: Instruction::Pointer { at: word(frames + 3), begins: word(codes + 9) },
            owner: Some((word(frames + 5), 3)),
            copy: copies.then(|| word(frames + 7)),
            file: word(codes + 1),
            name: word(codes + 3),
            lines: word(codes + 4),
            first: word(codes + 5),
            copies: if copies { word(codes + 10) } else { 0 },
            kind: word(objects + 1),
            size: word(bytes + 1),
            bytes: word(bytes + 2),
            length: word(texts + 2),
            ascii: word(texts + 3),
        })
    }
}
