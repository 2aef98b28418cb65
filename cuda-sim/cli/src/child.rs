//! The program as a child of this process: it receives the signals that are sent to this process,
//! and does not outlive it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// The signals that other processes send to end, interrupt or notify a program.
const FORWARDED: [libc::c_int; 6] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Runs a program to its end. Signals of other processes are passed on to it. Those of the terminal
/// are not: the kernel sends them to both.
pub fn run(mut command: Command) -> std::io::Result<ExitStatus> {
    let waited = waited_for();
    let before = block(&waited);
    end_with_this_process(&mut command, before);
    let mut child = command.spawn()?;
    loop {
        // The child is reaped here alone, so its id names no other process where it is used.
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = next_signal(&waited) {
            forward(&child, signal);
        }
    }
}

fn waited_for() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initializes the set, `sigaddset` changes it, and all signals are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Blocks signals, so that none is lost between the start of the child and the wait for it. Returns
/// the signals that were blocked before.
fn block(signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = std::mem::MaybeUninit::zeroed();
    // SAFETY: both sets are valid, and zeros are a valid set. With `SIG_DFL` for SIGCHLD, children
    // are kept until they are waited for, also if the caller of this process ignored the signal.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_BLOCK, signals, before.as_mut_ptr());
        before.assume_init()
    }
}

/// Makes the kernel end the child when this process ends in a way that leaves it no time to do so.
fn end_with_this_process(command: &mut Command, blocked: libc::sigset_t) {
    let parent = std::process::id() as libc::pid_t;
    let prepare = move || {
        // SAFETY: all three functions may be called between `fork` and `exec`, and the arguments
        // are plain values. The kernel sends the signal when the thread that forked ends; it is the
        // main thread, which ends with the process.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // If the parent ended before that, the kernel sends nothing.
            if libc::getppid() != parent {
                return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: `prepare` allocates nothing and takes no lock, as required in the child of a fork.
    unsafe { command.pre_exec(prepare) };
}

/// Waits for a signal. Returns it if another process sent it for the program.
fn next_signal(signals: &libc::sigset_t) -> Option<libc::c_int> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the set is valid, and zeros are a valid `siginfo_t`, which is written on success.
    let (signal, info) =
        unsafe { (libc::sigwaitinfo(signals, info.as_mut_ptr()), info.assume_init()) };
    // The codes of signals that the kernel sends by itself are positive.
    (FORWARDED.contains(&signal) && info.si_code <= 0).then_some(signal)
}

fn forward(child: &Child, signal: libc::c_int) {
    // SAFETY: the child was not reaped yet (`run`), so this is its id. A failure does not matter: a
    // child that ended meanwhile, or that belongs to another user now.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}
