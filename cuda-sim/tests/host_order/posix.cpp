// Channels, signals, semaphores and queues of POSIX, System V and Linux.
#include "host_order.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>
#include <unistd.h>

// --- channels ---

static int ends[2]; // the first is read, the second written

static void expect(ssize_t moved, ssize_t wanted) { CHECK(moved == wanted ? 0 : 1); }

static void prepare_pipe() { CHECK(pipe(ends)); }
static void prepare_socketpair() { CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends)); }
static void prepare_datagrams() { CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)); }
static void prepare_eventfd() {
    ends[0] = ends[1] = eventfd(0, 0);
    CHECK(ends[0] < 0);
}
static void prepare_duplicate() {
    CHECK(pipe(ends));
    const int other = dup(ends[0]);
    close(ends[0]);
    ends[0] = other;
}
static void connect_to(int family, sockaddr *address, socklen_t size) {
    const int listening = socket(family, SOCK_STREAM, 0);
    CHECK(bind(listening, address, size));
    CHECK(listen(listening, 1));
    CHECK(getsockname(listening, address, &size));
    ends[1] = socket(family, SOCK_STREAM, 0);
    CHECK(connect(ends[1], address, size));
    ends[0] = accept(listening, nullptr, nullptr);
    CHECK(ends[0] < 0);
}
static void prepare_tcp() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect_to(AF_INET, reinterpret_cast<sockaddr *>(&address), sizeof address);
}
static void prepare_tcp6() {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    connect_to(AF_INET6, reinterpret_cast<sockaddr *>(&address), sizeof address);
}

static void writes() { expect(write(ends[1], "12345678", 8), 8); }
static void reads() {
    char text[8];
    expect(read(ends[0], text, 8), 8);
}
static void writes_vector() {
    char text[8] = "";
    const iovec parts[] = {{text, 4}, {text + 4, 4}};
    expect(writev(ends[1], parts, 2), 8);
}
static void reads_vector() {
    char text[8];
    const iovec parts[] = {{text, 4}, {text + 4, 4}};
    expect(readv(ends[0], parts, 2), 8);
}
static void sends() { expect(send(ends[1], "12345678", 8, 0), 8); }
static void receives() {
    char text[8];
    expect(recv(ends[0], text, 8, 0), 8);
}
static void sends_to() { expect(sendto(ends[1], "12345678", 8, 0, nullptr, 0), 8); }
static void receives_from() {
    char text[8];
    expect(recvfrom(ends[0], text, 8, 0, nullptr, nullptr), 8);
}
static void sends_message() {
    char text[8] = "";
    iovec part = {text, 8};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    expect(sendmsg(ends[1], &message, 0), 8);
}
static void receives_message() {
    char text[8];
    iovec part = {text, 8};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    expect(recvmsg(ends[0], &message, 0), 8);
}
static void counts() { CHECK(eventfd_write(ends[1], 1)); }
static void reads_count() {
    eventfd_t count;
    CHECK(eventfd_read(ends[0], &count));
}
static void closes() { CHECK(close(ends[1])); }
static void shuts_down() { CHECK(shutdown(ends[1], SHUT_WR)); }
static void reads_end() {
    char text[8];
    expect(read(ends[0], text, 8), 0);
}

// --- queues and semaphores ---

static int semaphores, queue;
static mqd_t messages;

static void prepare_semaphores() {
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    CHECK(semaphores < 0);
}
static void raises_semaphore() {
    sembuf up = {0, 1, 0};
    CHECK(semop(semaphores, &up, 1));
}
static void lowers_semaphore() {
    sembuf down = {0, -1, 0};
    CHECK(semop(semaphores, &down, 1));
    CHECK(semctl(semaphores, 0, IPC_RMID));
}
static void prepare_queue() {
    queue = msgget(IPC_PRIVATE, 0600);
    CHECK(queue < 0);
}
struct text_message {
    long type;
    char text[8];
};
static void queues() {
    const text_message sent = {1, ""};
    CHECK(msgsnd(queue, &sent, sizeof sent.text, 0));
}
static void dequeues() {
    text_message received;
    expect(msgrcv(queue, &received, sizeof received.text, 0, 0), sizeof received.text);
    CHECK(msgctl(queue, IPC_RMID, nullptr));
}
static void prepare_messages() {
    mq_attr attributes{};
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = 8;
    // Programs of this kind run beside each other, and all processes share the names of queues.
    char name[48];
    snprintf(name, sizeof name, "/cuda_sim_host_order_%d", static_cast<int>(getpid()));
    messages = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
    CHECK(messages < 0);
    CHECK(mq_unlink(name));
}
static void posts() { CHECK(mq_send(messages, "12345678", 8, 0)); }
static void takes() {
    char text[8];
    expect(mq_receive(messages, text, 8, nullptr), 8);
}
static sem_t semaphore;
static void prepare_semaphore() { CHECK(sem_init(&semaphore, 0, 0)); }
static void posts_semaphore() { CHECK(sem_post(&semaphore)); }
static void awaits_semaphore() { CHECK(sem_wait(&semaphore)); }

// --- signals ---

static sigset_t signals;
static pid_t here;
static void prepare_signal() {
    here = getpid();
    CHECK(sigemptyset(&signals) + sigaddset(&signals, SIGUSR1));
    CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr));
}
static void prepare_signalfd() {
    prepare_signal();
    ends[0] = signalfd(-1, &signals, 0);
    CHECK(ends[0] < 0);
}
static void kills() { CHECK(kill(here, SIGUSR1)); }
static void queues_signal() { CHECK(sigqueue(here, SIGUSR1, sigval{})); }
static void awaits_signal() {
    int number;
    CHECK(sigwait(&signals, &number));
}
static void awaits_signal_in_time() {
    const timespec time = {60, 0};
    expect(sigtimedwait(&signals, nullptr, &time), SIGUSR1);
}
static void reads_signal() {
    signalfd_siginfo info;
    expect(read(ends[0], &info, sizeof info), sizeof info);
}

// --- a lock of the program's own, as those of Rust's standard library ---

static std::atomic<int> word(2); // 0 free, 1 taken, 2 taken and somebody waits
static void unlocks() {
    if (word.exchange(0, std::memory_order_release) == 2)
        syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
}
static void locks() {
    while (word.exchange(2, std::memory_order_acquire) != 0)
        syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, nullptr);
}
static void wakes_bits() {
    word.store(0, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 1);
}
static void awaits_bits() {
    while (word.load(std::memory_order_acquire) != 0)
        syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 2, nullptr, nullptr, 1);
}

// --- C11 ---

static once_flag control = ONCE_FLAG_INIT;
static std::atomic<bool> is_inside;
static void initializes() {
    is_inside.store(true, std::memory_order_relaxed);
    usleep(20000);
}
static void runs_once() { call_once(&control, initializes); }
static void awaits_once() {
    while (!is_inside.load(std::memory_order_relaxed))
        sched_yield();
    call_once(&control, initializes);
}

const handover handovers_posix[] = {
    {"pipe", prepare_pipe, writes, reads, false},
    {"pipe_vectors", prepare_pipe, writes_vector, reads_vector, false},
    {"pipe_duplicate", prepare_duplicate, writes, reads, false},
    {"pipe_closed", prepare_pipe, closes, reads_end, false},
    {"socketpair", prepare_socketpair, writes, reads, false},
    {"socketpair_send", prepare_socketpair, sends, receives, false},
    {"socketpair_sendto", prepare_socketpair, sends_to, receives_from, false},
    {"socketpair_sendmsg", prepare_socketpair, sends_message, receives_message, false},
    {"socketpair_shut_down", prepare_socketpair, shuts_down, reads_end, false},
    {"datagrams", prepare_datagrams, sends, receives, false},
    {"tcp", prepare_tcp, writes, reads, false},
    {"tcp6", prepare_tcp6, sends, receives, false},
    {"eventfd", prepare_eventfd, counts, reads_count, false},
    {"system_v_semaphore", prepare_semaphores, raises_semaphore, lowers_semaphore, false},
    {"system_v_queue", prepare_queue, queues, dequeues, false},
    {"message_queue", prepare_messages, posts, takes, false},
    {"semaphore", prepare_semaphore, posts_semaphore, awaits_semaphore, false},
    {"signal", prepare_signal, kills, awaits_signal, false},
    {"signal_in_time", prepare_signal, queues_signal, awaits_signal_in_time, false},
    {"signalfd", prepare_signalfd, kills, reads_signal, false},
    {"futex", nullptr, unlocks, locks, true},
    {"futex_bitset", nullptr, wakes_bits, awaits_bits, true},
    {"once_of_c", nullptr, runs_once, awaits_once, false},
    {nullptr, nullptr, nullptr, nullptr, false},
};

// --- ends of threads ---

static std::atomic<bool> is_over;

static void join(pthread_t thread, bool racy) {
    if (racy) {
        while (!is_over.load(std::memory_order_relaxed))
            sched_yield();
        work();
    }
    CHECK(pthread_join(thread, nullptr));
    if (!racy) work();
}

struct last_work {
    ~last_work() {
        work();
        is_over.store(true, std::memory_order_relaxed);
    }
    bool is_used = false;
};
static void *work_in_destructor(void *) {
    static thread_local last_work last;
    last.is_used = true;
    return nullptr;
}
PROGRAM(thread_variable) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, work_in_destructor, nullptr));
    join(thread, racy);
}

static pthread_key_t key;
static void *work_for_key(void *) {
    CHECK(pthread_setspecific(key, &key));
    // What the thread did before is not forgotten.
    work();
    return nullptr;
}
static void work_at_last(void *) {
    work();
    is_over.store(true, std::memory_order_relaxed);
}
PROGRAM(thread_key) {
    pthread_t thread;
    CHECK(pthread_key_create(&key, work_at_last));
    CHECK(pthread_create(&thread, nullptr, work_for_key, nullptr));
    join(thread, racy);
}

static void *work_and_pause(void *) {
    work();
    is_over.store(true, std::memory_order_relaxed);
    for (;;)
        pause();
}
PROGRAM(thread_cancelled) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, work_and_pause, nullptr));
    while (!is_over.load(std::memory_order_relaxed))
        sched_yield();
    CHECK(pthread_cancel(thread));
    join(thread, racy);
}

static pthread_barrier_t meeting;

// Without a second barrier in each round, the next write is not ordered after the read.
static CUdeviceptr halves[2];
static void exchange(int mine, bool racy) {
    for (int round = 0; round < 50; ++round) {
        cudasim_host_write(reinterpret_cast<void *>(halves[mine]), 64);
        pthread_barrier_wait(&meeting);
        cudasim_host_read(reinterpret_cast<void *>(halves[1 - mine]), 64);
        if (!racy) pthread_barrier_wait(&meeting);
    }
}
static bool is_exchange_racy;
static void exchange_first() { exchange(0, is_exchange_racy); }
static void exchange_second() { exchange(1, is_exchange_racy); }
PROGRAM(posix_barrier_rounds) {
    is_exchange_racy = racy;
    for (CUdeviceptr &half : halves)
        CHECK(cuMemAllocManaged(&half, 64, CU_MEM_ATTACH_GLOBAL));
    CHECK(pthread_barrier_init(&meeting, nullptr, 2));
    both(exchange_first, exchange_second);
    CHECK(pthread_barrier_destroy(&meeting));
}
