/*
 * Channels of processes that have a child of fork, which has copies of all descriptors: the end of
 * the process or of its channel is noticed all the same. Those that execute another program end as
 * processes that are killed do.
 * run: sim lazy threads hidden; devices 2; with NUMBERS= 0 1
 */
#include "channel_test.h"

static void new_channel(void) {
    flags = strcmp(getenv("NUMBERS"), "1") == 0 ? CAI_UNSTABLE_CHANNEL_NUMBERS : 0;
    create(0);
}

/* The child ends when the process at the other end of the socket does, or without one, this one. */
static void start_child(int socket) {
    const pid_t child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        struct pollfd wait = {socket, 0, 0};
        if (socket < 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(poll(&wait, 1, 60000) != 1);
    }
}

static int is_readable(void) {
    struct pollfd wait = {-1, POLLIN, 0};
    OK(cai_unstable_channel_fd(the_channel, &wait.fd, error));
    return poll(&wait, 1, 0);
}

static uint64_t export_new(void) {
    cai_array array = owned(new_buffer(), CAI_STREAM_NONE);
    return export_array(&array);
}

/* --- importers */

PART(imports_and_waits) {
    create(0);
    import_array(from);
    tell(from, 'd');
    pause();
}

/* The descriptor of the channel is not readable for ever. */
CASE(the_importer_of_a_process_with_a_child_is_killed) {
    new_channel();
    start_peer("imports_and_waits");
    const uint64_t made = export_new();
    ASSERT(word_from(peer_socket) == 'd');
    start_child(-1);
    kill_peer();
    POLL_WHILE(is_readable());
    withdraw_last(made);
    ASSERT(!is_readable());
    end_channel();
}

PART(imports_and_releases) {
    struct sockaddr name;
    socklen_t size = sizeof name;
    create(0);
    cai_array array = import_array(from);
    const int its = connection();
    start_child(from);
    cai_array_release(&array);
    end_channel();
    /* The memory is closed, and then the connection, by a thread of the library. */
    for (int tries = 0; getpeername(its, &name, &size) == 0; ++tries) {
        ASSERT(tries < 10000);
        usleep(1000);
    }
    tell(from, 'd');
    pause();
}

CASE(an_importer_with_a_child_releases_its_channel) {
    new_channel();
    start_peer("imports_and_releases");
    const uint64_t made = export_new();
    ASSERT(word_from(peer_socket) == 'd');
    POLL_WHILE(is_readable());
    withdraw_last(made);
    kill_peer();
    end_channel();
}

/* It has connected, and the exporter has not noticed yet. */
PART(connects_and_ends) {
    packet it;
    cai_array array;
    create(0);
    receive_packet(from, &it);
    ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, NULL));
    start_child(from);
    _exit(0);
}

CASE(an_importer_with_a_child_ends) {
    int status;
    new_channel();
    start_peer("connects_and_ends");
    const uint64_t made = export_new();
    ASSERT(waitpid(peer, &status, 0) == peer && status == 0);
    polled();
    withdraw_last(made);
    ASSERT(!is_readable());
    close(peer_socket);
    end_channel();
}

/* --- exporters */

PART(exports_and_releases) {
    peer_socket = from;
    new_channel();
    start_child(from);
    export_new();
    ASSERT(hear(from) == 'c');
    end_channel();
    tell(from, 'd');
    pause();
}

/* Also one that an importer has connected to. */
CASE(an_exporter_with_a_child_releases_its_channel) {
    for (int is_connected = 0; is_connected < 2; ++is_connected) {
        packet it;
        cai_array array;
        create(0);
        start_peer("exports_and_releases");
        receive_packet(peer_socket, &it);
        if (is_connected) ASSERT_STATUS(CAI_ERR_IPC_PENDING, try_import(&it, &array, NULL));
        tell(peer_socket, 'c');
        ASSERT(hear(peer_socket) == 'd');
        polled();
        ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &array, NULL));
        ASSERT(!is_readable());
        kill_peer();
        end_channel();
    }
}

PART(exports_and_ends) {
    peer_socket = from;
    new_channel();
    start_child(from);
    export_new();
    _exit(0);
}

CASE(an_exporter_with_a_child_ends) {
    int status;
    packet it;
    cai_array array;
    create(0);
    start_peer("exports_and_ends");
    receive_packet(peer_socket, &it);
    ASSERT(waitpid(peer, &status, 0) == peer && status == 0);
    ASSERT_STATUS(CAI_ERR_IPC_PEER, try_import(&it, &array, NULL));
    close(peer_socket);
    end_channel();
}

/* --- other programs */

static void execute_another(void) {
    execl("/bin/sleep", "sleep", "60", (char *)NULL);
    _exit(3);
}

PART(imports_and_executes) {
    create(0);
    import_array(from);
    tell(from, 'd');
    execute_another();
}

CASE(an_importer_executes_another_program) {
    new_channel();
    start_peer("imports_and_executes");
    const uint64_t made = export_new();
    ASSERT(word_from(peer_socket) == 'd');
    withdraw_last(made);
    ASSERT(!is_readable());
    kill_peer();
    end_channel();
}

PART(exports_and_executes) {
    peer_socket = from;
    new_channel();
    export_new();
    ASSERT(word_from(from) == 'x');
    execute_another();
}

/* As a server does that restarts itself. */
CASE(an_exporter_executes_another_program) {
    const cai_stream consumer = as_value(new_stream());
    packet it;
    cai_array array, other;
    create(0);
    start_peer("exports_and_executes");
    receive_packet(peer_socket, &it);
    array = import_packet(&it);
    tell(peer_socket, 'x');
    for (int tries = 0; try_import(&it, &other, NULL) != CAI_ERR_IPC_PEER; ++tries) {
        ASSERT(tries < 3000);
        cai_array_release(&other); /* it did not execute the other program yet */
        usleep(1000);
        polled();
    }
    ASSERT_STATUS(CAI_ERR_IPC_PEER,
                  cai_array_consume_begin(&array, consumer, CAI_ACCESS_READ, NULL));
    cai_array_release(&array);
    polled();
    ASSERT(!is_readable());
    kill_peer();
    end_channel();
    /* With numbers there are some: the simulator does not know that the exporter has ended. */
    races();
}

int main(int count, char **words) { return ipc_main(count, words); }
