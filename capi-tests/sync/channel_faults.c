/*
 * Each call of the driver fails once, in the exporter and in the importer of a channel: a function
 * says so and succeeds when it is called again, nothing is released before the work on it is done,
 * and in the end everything is released.
 * run: refuse each 999
 */
#include "channel_test.h"

/* A call that may fail once. */
#define AGAIN(call)                                                         \
    do {                                                                    \
        cai_error why_;                                                     \
        cai_error *error = &why_;                                           \
        cai_status got_;                                                    \
        the_shim.arm(1); /* OK ends that */                                 \
        got_ = (call);                                                      \
        if (got_ != CAI_OK && the_shim.fired() != 0) {                      \
            ASSERT(why_.code == got_ && why_.message[0] != '\0');           \
            got_ = (call);                                                  \
        }                                                                   \
        if (got_ != CAI_OK) {                                               \
            FAIL("%s: %s: %s", #call, cai_status_name(got_), why_.message); \
        }                                                                   \
    } while (0)

static void set_flags(void) {
    flags = getenv("NUMBERS") != NULL ? CAI_UNSTABLE_CHANNEL_NUMBERS : 0;
}

PART(imports) {
    CUstream stream = new_stream();
    CUdeviceptr to = new_buffer();
    const cai_array none = CAI_ARRAY_INIT;
    packet it;
    set_flags();
    create(8);
    the_shim.arm(1);
    for (int i = 0; i < 2; ++i) {
        cai_array array;
        cai_status status;
        cai_error why;
        receive_packet(from, &it);
        for (int tries = 0;; ++tries) {
            array = none;
            status = cai_unstable_channel_import(the_channel, it.bytes, it.size, &array, &why);
            if (status == CAI_OK) break;
            ASSERT(array.owner == NULL && array.data == NULL);
            if (status != CAI_ERR_IPC_PENDING && the_shim.fired() == 0) FAIL("%s", why.message);
            ASSERT(tries < 10000);
            usleep(1000);
            polled();
        }
        AGAIN(cai_array_consume_begin(&array, as_value(stream), CAI_ACCESS_WRITE, error));
        copy(to, (CUdeviceptr)(uintptr_t)array.data, stream);
        fill((CUdeviceptr)(uintptr_t)array.data, 2 + i, stream);
        AGAIN(cai_array_consume_end(&array, as_value(stream), CAI_ACCESS_WRITE, error));
        cai_array_release(&array);
        tell(from, 'd');
    }
    ASSERT(word_from(from) == 'e');
    the_shim.arm(0);
    AGAIN(cai_unstable_channel_release(the_channel, error));
}

static void faults(cai_stream on, unsigned with) {
    CUstream stream = new_stream();
    CUdeviceptr buffers[2] = {new_buffer(), new_buffer()};
    uint64_t made[2];
    flags = with;
    if (with != 0) setenv("NUMBERS", "1", 1);
    start_peer("imports");
    create(8);
    for (int i = 0; i < 2; ++i) {
        cai_array array = owned(buffers[i], on == 0 ? as_value(stream) : on);
        packet it = {0};
        size_t size = 0;
        if (on != CAI_STREAM_NONE) fill(buffers[i], 1, as_stream(array.stream));
        AGAIN(cai_unstable_channel_export(the_channel, 0, &array, it.bytes, sizeof it.bytes, &size,
                                          &made[i], error));
        it.size = size;
        send_packet(peer_socket, &it, -1);
        cai_array_release(&array);
        ASSERT(word_from(peer_socket) == 'd');
        AGAIN(cai_unstable_channel_withdraw(the_channel, made[i], error));
    }
    for (int i = 0; freed != 2; ++i) {
        the_shim.arm(1);
        polled();
        ASSERT(i < 5000);
        usleep(1000);
    }
    ASSERT(polled() == 0);
    tell(peer_socket, 'e');
    end_peer();
    the_shim.arm(0);
    end_channel();
    ASSERT(freed == 2);
}

CASE(stream_of_the_array) { faults(0, 0); }
CASE(no_stream) { faults(CAI_STREAM_NONE, 0); }
CASE(numbers) { faults(CAI_STREAM_LEGACY, CAI_UNSTABLE_CHANNEL_NUMBERS); }

int main(int count, char **words) { return ipc_main(count, words); }
