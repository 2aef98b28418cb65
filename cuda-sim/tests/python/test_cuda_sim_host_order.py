"""The order of host threads as `cuda-sim run` observes it: locks of languages, channels, OpenMP, signals."""

import concurrent.futures
import shutil

import pytest

from commands import HEADERS, SIM, WORKERS, compile_text, run, sim

SOURCES = SIM / "tests/host_order"


@pytest.fixture(scope="module")
def host_order(driver, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("host_order")
    flags = ["g++", "-std=c++20", "-g", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fopenmp"]
    objects = []
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        done = []
        for source in sorted(SOURCES.glob("*.cpp")):
            objects.append(folder / f"{source.stem}.o")
            include = ["-isystem", HEADERS["13"], "-I", SIM / "include"]
            done.append(pool.submit(run, *flags, *include, "-c", source, "-o", objects[-1]))
        [one.result() for one in done]
    program = folder / "host_order"
    run("g++", "-rdynamic", "-fopenmp", *objects, "-o", program, "-L", driver, "-lcuda", "-lpthread", "-lrt", "-ldl")
    return program


@pytest.mark.parametrize("schedule", ["lazy", "threads"])
def test_constructs(host_order, schedule):
    """Each construct with an order that it gives, and with work that it does not order."""

    def result(name):
        return name, sim(f"--schedule={schedule}", "--", host_order, "run", name, check=False)

    names = sim("--", host_order, "list").stdout.split()
    assert len(names) >= 100 and len(set(names)) == len(names)
    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        wrong = [f"{name}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
                 for name, done in pool.map(result, names) if done.returncode != 0]  # fmt: skip
    assert not wrong, "\n".join(wrong)


UNCHANGED = r"""
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int cleaned;
static void clean(void *none) { (void)none; __atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST); }
static void unlock(void *none) { (void)none; clean(NULL); pthread_mutex_unlock(&mutex); }
static void *reads(void *none) {
    char text;
    pthread_cleanup_push(clean, NULL);
    OK(read(ends[0], &text, 1));
    pthread_cleanup_pop(0);
    return none;
}
static void *waits(void *none) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return none;
}
static void *waits_for_semaphore(void *none) {
    pthread_cleanup_push(clean, NULL);
    sem_wait(&semaphore);
    pthread_cleanup_pop(0);
    return none;
}
static void *exits(void *none) {
    pthread_cleanup_push(clean, NULL);
    pthread_exit(none);
    pthread_cleanup_pop(0);
}
static void cancelled(void *(*run)(void *), int cancels) {
    pthread_t thread;
    void *result;
    OK(pthread_create(&thread, NULL, run, NULL));
    usleep(20000);
    if (cancels) OK(pthread_cancel(thread));
    OK(pthread_join(thread, &result));
    OK(result != (cancels ? PTHREAD_CANCELED : NULL));
}
static volatile int number, detail;
static sigjmp_buf back;
static void handles(int signal) { number = signal; OK(write(ends[1], "x", 1) != 1); }
static void handles_details(int signal, siginfo_t *info, void *context) {
    number = signal;
    detail = context != NULL ? info->si_value.sival_int : 0;
}
static void jumps(int signal) { (void)signal; siglongjmp(back, 1); }
int main(void) {
    OK(cuInit(0));
    OK(pipe(ends));
    OK(sem_init(&semaphore, 0, 0));
    cancelled(reads, 1);
    cancelled(waits, 1);
    cancelled(waits_for_semaphore, 1);
    cancelled(exits, 0);
    OK(cleaned != 4);
    // Handlers: what a program set is what it finds, and is called with its arguments.
    OK(signal(SIGUSR1, handles) != SIG_DFL);
    OK(raise(SIGUSR1));
    char text;
    OK(number != SIGUSR1 || read(ends[0], &text, 1) != 1);
    struct sigaction action, found;
    OK(sigaction(SIGUSR1, NULL, &found));
    OK(found.sa_handler != handles);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handles_details;
    action.sa_flags = SA_SIGINFO;
    OK(sigaction(SIGUSR1, &action, &found));
    OK(found.sa_handler != handles);
    OK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 5}) || detail != 5);
    OK(sigaction(SIGUSR1, &found, &action));
    OK(action.sa_sigaction != handles_details || !(action.sa_flags & SA_SIGINFO));
    OK(signal(SIGUSR1, SIG_IGN) != handles);
    OK(raise(SIGUSR1));
    OK(signal(SIGUSR1, jumps) != SIG_IGN);
    for (volatile int i = 0; i < 3; ++i) {
        if (!sigsetjmp(back, 1)) raise(SIGUSR1);
    }
    OK(signal(SIGUSR1, SIG_DFL) != jumps);
    errno = 0;
    OK(signal(SIGKILL, handles) != SIG_ERR || errno != EINVAL);
    OK(sigaction(1000, &action, NULL) != -1 || errno != EINVAL);
    // Errors stay as they are.
    OK(read(-1, &text, 1) != -1 || errno != EBADF);
    OK(close(-1) != -1 || errno != EBADF);
    puts("done");
    return 0;
}
"""


def test_programs_behave_as_without(driver, tmp_path):
    """Cancellation passes through functions that were replaced, handlers are those of the program, errors remain."""
    program = compile_text(driver, tmp_path / "unchanged", UNCHANGED)
    for _ in range(3):
        done = sim("--", program, check=False)
        assert done.returncode == 0 and done.stdout == "done\n", (done.returncode, done.stdout, done.stderr)


def test_openmp_of_a_library_that_others_cannot_see(driver, tmp_path):
    """A module that is loaded later brings libgomp, as extension modules of Python do."""
    (tmp_path / "module.c").write_text(
        '#include "race_test.h"\n'
        "#include <omp.h>\n"
        "static CUcontext context;\n"
        "static void work(CUdeviceptr at) {\n"
        "    use(context);\n"
        "    CUstream stream = make_nonblocking();\n"
        "    CHECK(cuMemsetD8Async(at, 1, 64, stream));\n"
        "    CHECK(cuStreamSynchronize(stream));\n"
        "}\n"
        "int entry(int racy) {\n"
        "    CHECK(cuInit(0));\n"
        "    use(context = primary(0));\n"
        "    const CUdeviceptr at = alloc(64);\n"
        "#pragma omp parallel num_threads(2)\n"
        "    {\n"
        "        if (racy || omp_get_thread_num() == 0) work(at);\n"
        "#pragma omp barrier\n"
        "        if (omp_get_thread_num() == 1) work(at);\n"
        "    }\n"
        "    return 0;\n"
        "}\n"
    )
    (tmp_path / "main.c").write_text(
        "#include <dlfcn.h>\n"
        "#include <stdio.h>\n"
        "int main(int argc, char **argv) {\n"
        "    void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);\n"
        "    if (module == NULL) return puts(dlerror());\n"
        '    return ((int (*)(int))dlsym(module, "entry"))(argc > 2);\n'
        "}\n"
    )
    include = ["-isystem", HEADERS["13"], "-I", SIM / "include", "-I", SIM / "tests/programs"]
    shared = ["-std=gnu11", "-O1", "-fPIC", "-shared", "-fopenmp"]
    run("gcc", *shared, *include, tmp_path / "module.c", "-o", tmp_path / "module.so", "-L", driver, "-lcuda")
    run("gcc", tmp_path / "main.c", "-o", tmp_path / "main", "-ldl")
    assert sim("--", tmp_path / "main", tmp_path / "module.so").returncode == 0
    assert sim("--", tmp_path / "main", tmp_path / "module.so", "racy", check=False).returncode == 66


RUST = r"""
use std::sync::{Arc, Condvar, Mutex, mpsc, atomic::{AtomicI64, Ordering}};
use std::time::Duration;
unsafe extern "C" {
    fn cuInit(flags: u32) -> i32;
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> i32;
    fn cuCtxSetCurrent(context: usize) -> i32;
    fn cuStreamCreate(stream: *mut usize, flags: u32) -> i32;
    fn cuMemAlloc_v2(at: *mut u64, size: usize) -> i32;
    fn cuMemsetD8Async(at: u64, value: u8, size: usize, stream: usize) -> i32;
    fn cuStreamSynchronize(stream: usize) -> i32;
    fn gettid() -> i32;
}
fn work(context: usize, at: u64) {
    let mut stream = 0;
    unsafe {
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!(cuStreamCreate(&mut stream, 1), 0);
        assert_eq!(cuMemsetD8Async(at, 1, 64, stream), 0);
        assert_eq!(cuStreamSynchronize(stream), 0);
    }
}
static WAITER: AtomicI64 = AtomicI64::new(0);
fn await_sleeper() {
    let mut asleep = 0;
    while asleep < 3 {
        let thread = WAITER.load(Ordering::Relaxed);
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        asleep = if text.contains(") S") { asleep + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(2));
    }
}
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let racy = std::env::args().nth(2).is_some();
    let (mut context, mut at) = (0, 0);
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!(cuMemAlloc_v2(&mut at, 64), 0);
    }
    let mutex = Arc::new((Mutex::new(false), Condvar::new()));
    let (send, receive) = mpsc::channel::<()>();
    let (to, of) = (mutex.clone(), name.clone());
    let waiter = std::thread::spawn(move || {
        WAITER.store(unsafe { gettid() } as i64, Ordering::Relaxed);
        match &*of {
            "park" => std::thread::park(),
            "channel" => receive.recv().unwrap(),
            _ => {
                let mut ready = to.0.lock().unwrap();
                while !*ready { ready = to.1.wait(ready).unwrap(); }
            }
        }
        work(context, at);
    });
    let thread = waiter.thread().clone();
    let other = std::thread::spawn(move || {
        if !racy { work(context, at); }
        await_sleeper();
        match &*name {
            "park" => thread.unpark(),
            "channel" => send.send(()).unwrap(),
            _ => {
                *mutex.0.lock().unwrap() = true;
                mutex.1.notify_one();
            }
        }
        if racy { work(context, at); }
    });
    other.join().unwrap();
    waiter.join().unwrap();
}
"""


@pytest.mark.skipif(not shutil.which("rustc"), reason="needs rustc")
def test_rust(driver, tmp_path):
    """Locks of Rust's standard library, by their futexes."""
    (tmp_path / "order.rs").write_text(RUST)
    program = tmp_path / "order"
    run("rustc", "--edition=2024", "-g", tmp_path / "order.rs", "-o", program, "-L", driver, "-l", "cuda", timeout=120)
    for name in ("park", "channel", "condition"):
        assert sim("--", program, name, check=False).returncode == 0, name
        assert sim("--", program, name, "racy", check=False).returncode == 66, name
