//! The end of the process: the driver is gone, and the results are reported.

use crate::checker::Checker;
use crate::config::Races;
use crate::console::print;
use crate::missing;
use crate::shown::counted;
use crate::sim::state::{CHANGED, EXITED, PROCESS, Sim, try_lock_for};
use crate::stack::StackId;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Reports the results at exit, after which calls return `CUDA_ERROR_DEINITIALIZED`.
pub extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() as i32 {
        return;
    }
    crate::instrumented::flush();
    EXITED.store(true, Ordering::Release);
    // A thread that never releases the lock must not block the process.
    let Some(mut sim) = try_lock_for(Duration::from_secs(2)) else { return };
    sim.end_shared();
    CHANGED.notify_all();
    let missing = missing::calls();
    for (name, count) in &missing {
        print(&if crate::real_driver::is_present() {
            format!(
                "cuda-sim: {name} was called {} in ways that the checker does not follow\n",
                counted(*count, "time")
            )
        } else {
            format!(
                "cuda-sim: {name} is not simulated and was called {}; it returned {}\n",
                counted(*count, "time"),
                missing::result(name)
            )
        });
    }
    let (mut found, mut mode) = (0, Races::Off);
    if let Some(checker) = &mut sim.checker {
        checker.end_open_waits();
        (found, mode) = (checker.found(), checker.mode);
        checker.print().iter().for_each(|text| print(text));
        checker.found_later().iter().for_each(|text| print(text));
        checker.summary().iter().for_each(|text| print(text));
        checker.unordered().iter().for_each(|text| print(text));
        if checker.open.unsure() > 0 {
            print(&format!(
                "cuda-sim: {} for a number may have ended earlier than assumed: the number was \
                 written so often that old writes are not kept apart\n",
                counted(checker.open.unsure(), "wait")
            ));
        }
    }
    sim.report_undeclared();
    if found > 0 {
        print(&format!("cuda-sim: {found} race{} found\n", if found == 1 { "" } else { "s" }));
    }
    let Sim { checker, journal, .. } = &mut *sim;
    if let Some(journal) = journal {
        checker.iter_mut().for_each(|checker| {
            checker.write(journal);
            checker.write_end(journal);
        });
        let missing = missing.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        journal.end(missing, checker.as_ref().and_then(Checker::newest));
    }
    if found > 0 && mode == Races::Error {
        // SAFETY: `fflush` accepts NULL, and `_exit` may be called at any time. No code of the
        // program runs afterwards.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(RACES_EXIT_CODE);
        }
    }
}

/// The exit status of a program in which races were found.
pub const RACES_EXIT_CODE: i32 = 66;

impl Sim {
    /// Records that the program looked for a kernel that it did not declare. A driver finds it, so
    /// this is the reason why the program does something else here.
    pub fn undeclared_kernel(&mut self, name: &str) {
        if crate::real_driver::is_present() {
            return;
        }
        if let Some((count, _)) = self.undeclared.get_mut(name) {
            *count += 1;
            return;
        }
        if self.undeclared.is_empty() {
            print(
                "cuda-sim: kernels are not executed: declare them with --kernels or \
                 cudasim_register, or use --shadow with a GPU\n",
            );
        }
        let stack = self.checker.as_mut().map(|checker| checker.stacks.here());
        if let Some(journal) = &mut self.journal {
            let lines = lines_of(self.checker.as_ref(), stack);
            journal.kernel(name, &lines);
        }
        missing::log("kernel", name);
        self.undeclared.insert(name.to_owned(), (1, stack));
    }

    /// Prints the kernels that were looked for and not declared.
    fn report_undeclared(&self) {
        for (name, (count, stack)) in &self.undeclared {
            print(&format!(
                "cuda-sim: kernel {name} is not declared: it was not found {}, and was not \
                 launched\n",
                counted(*count, "time")
            ));
            for line in lines_of(self.checker.as_ref(), *stack) {
                print(&format!("      {line}\n"));
            }
        }
    }
}

fn lines_of(checker: Option<&Checker>, stack: Option<StackId>) -> Vec<String> {
    let (Some(checker), Some(stack)) = (checker, stack) else { return Vec::new() };
    checker.stacks.lines(stack)
}
