// What a litmus row can say: the makers of objects and the verbs. A line here is all that a new one
// needs; give it one if about five programs would use it.
#ifndef LITMUS_VERBS_H
#define LITMUS_VERBS_H

#include "exchange.h"
#include "graphs.h"
#include "kernels.h"

#include <semaphore.h>
#include <threads.h>

#define S(i) ((CUstream)(uintptr_t)a[i])
#define E(i) ((CUevent)(uintptr_t)a[i])
#define C(i) ((CUcontext)(uintptr_t)a[i])
#define H(i) ((void *)(uintptr_t)a[i])
#define GRAPH(i) ((CUgraph)(uintptr_t)a[i])
#define EXEC(i) ((CUgraphExec)(uintptr_t)a[i])
#define NEEDS(i) needs((CUgraphNode)(uintptr_t)a[i], (CUgraphNode)(uintptr_t)a[(i) + 1])
#define GREEN(i) ((CUgreenCtx)(uintptr_t)a[i])
#define ARRAY(i) ((struct array *)(uintptr_t)a[i])
#define HANDLE(made) ((uint64_t)(uintptr_t)(made))

// Kinds of arguments, in the table's texts: s stream, e event, p memory, h memory that the host can
// touch, c context, g graph, k its node, x executable graph, G green context, m physical memory,
// a exchanged array, n number; and such that may be left out: N bytes, D device 0, K node.

// clang-format off
#define MAKERS(M) \
    M(num,    'n', "n",   a[0]) \
    M(nb,     's', "",    HANDLE(make_nonblocking())) /* non-blocking stream */ \
    M(st,     's', "",    HANDLE(make_stream()))      /* blocking stream */ \
    M(nbp,    's', "",    HANDLE(with_priority(CU_STREAM_NON_BLOCKING))) \
    M(stp,    's', "",    HANDLE(with_priority(CU_STREAM_DEFAULT))) \
    M(ev,     'e', "",    HANDLE(make_event())) \
    M(mem,    'p', "N",   alloc(a[0]))                /* cuMemAlloc */ \
    M(amem,   'p', "sN",  alloc_in(S(0), a[1]))       /* cuMemAllocAsync */ \
    M(pmem,   'p', "s",   alloc_from_pool(S(0)))      /* of a pool of its own, N bytes */ \
    M(man,    'h', "N",   alloc_managed(a[0])) \
    M(pin,    'h', "N",   HANDLE(alloc_pinned(a[0]))) \
    M(pag,    'h', "N",   HANDLE(calloc(1, a[0])))    /* pageable: the driver does not know it */ \
    M(reg,    'h', "",    HANDLE(registered()))       /* 4096 bytes, and where the device has them */ \
    M(dev,    'p', "h",   device_address(H(0))) \
    M(unreg,  'h', "",    HANDLE(unregistered()))     /* registered once */ \
    M(flag,   'p', "",    ready_flag())               /* 8 bytes, zero before anything else runs */ \
    M(ctx,    'c', "",    HANDLE(second_context()))   /* of device 0, made current */ \
    M(prim,   'c', "D",   HANDLE(primary((int)a[0]))) /* primary context, not made current */ \
    M(end,    'g', "s",   HANDLE(end(S(0))))          /* the graph of a capture */ \
    M(exec,   'x', "g",   HANDLE(instance(GRAPH(0)))) \
    M(clone,  'g', "g",   HANDLE(clone_of(GRAPH(0)))) \
    M(graph,  'g', "",    HANDLE(empty_graph()))      /* whose nodes follow, with what they need */ \
    M(nfill,  'k', "gpKK",  HANDLE(fill(GRAPH(0), a[1], NEEDS(2)))) \
    M(ncopy,  'k', "gppKK", HANDLE(copy(GRAPH(0), a[1], a[2], NEEDS(3)))) \
    M(nhost,  'k', "gKK",   HANDLE(host_node(GRAPH(0), NEEDS(1)))) \
    M(nempty, 'k', "gKK",   HANDLE(empty_node(GRAPH(0), NEEDS(1)))) \
    M(nchild, 'k', "ggKK",  HANDLE(child_node(GRAPH(0), GRAPH(1), NEEDS(2)))) \
    M(nrec,   'k', "geKK",  HANDLE(record_node(GRAPH(0), E(1), NEEDS(2)))) \
    M(nwait,  'k', "geKK",  HANDLE(wait_node(GRAPH(0), E(1), NEEDS(2)))) \
    M(phys,   'm', "",    physical())                 /* physical memory, of the smallest size */ \
    M(imp,    'm', "m",   imported(a[0]))             /* exported and imported again */ \
    M(map,    'p', "m",   map(a[0]))                  /* at an address of its own */ \
    M(pair,   'p', "",    pair())                     /* N/2 bytes, and N/2 of a memory behind */ \
    /* exchanged arrays of N bytes: with a stream, without one, with an unknown one */ \
    M(arr,    'a', "ps",  HANDLE(make_array(a[0], a[1]))) \
    M(arrn,   'a', "p",   HANDLE(make_array(a[0], NO_STREAM))) \
    M(arru,   'a', "p",   HANDLE(make_array(a[0], UNKNOWN_STREAM))) \
    /* like another: read-only, of another owner, of none, of n bytes, one of two columns */ \
    M(ro,     'a', "a",   HANDLE(read_only(*ARRAY(0)))) \
    M(by,     'a', "an",  HANDLE(owned_by(*ARRAY(0), &owners[a[1]]))) \
    M(bare,   'a', "a",   HANDLE(owned_by(*ARRAY(0), NULL))) \
    M(of,     'a', "an",  HANDLE(first_bytes(*ARRAY(0), a[1]))) \
    M(col,    'a', "an",  HANDLE(column(*ARRAY(0), a[1]))) \
    M(on,     'a', "as",  HANDLE(exported_on(*ARRAY(0), S(1)))) \
    M(within, 'a', "ac",  HANDLE(within(*ARRAY(0), C(1)))) \
    M(foreign, 'a', "a",  HANDLE(foreign(*ARRAY(0)))) /* with a library that reports no end */ \
    MAKERS_12_8(M)

#define VERBS(V) \
    /* kernels: write, read, and only claim to */ \
    V(w,      "spN",      writes(S(0), a[1], a[2])) \
    V(r,      "spN",      reads(S(0), a[1], a[2])) \
    V(cw,     "spN",      claims_write(S(0), a[1], a[2])) \
    V(cr,     "spN",      claims_read(S(0), a[1], a[2])) \
    /* blocks of n bytes: count, step; rows of 4 bytes: rows, step, columns, step; only claimed */ \
    V(ws,     "spnnn",    writes_strided(S(0), a[1], a[2], (int64_t)a[3], (int64_t)a[4])) \
    V(rs,     "spnnn",    reads_strided(S(0), a[1], a[2], (int64_t)a[3], (int64_t)a[4])) \
    V(matrix, "spnnnn",   claims_matrix(S(0), a[1], (const int64_t *)a + 2)) \
    /* by name: add bytes from; write as many bytes as there are threads: blocks, threads of each */ \
    V(add,    "sppN",     add(S(0), a[1], a[2], a[3])) \
    V(blocks, "spnn",     fill_blocks(S(0), a[1], (unsigned)a[2], (unsigned)a[3])) \
    V(blocksx, "spnn",    fill_blocks_as(S(0), a[1], (unsigned)a[2], (unsigned)a[3])) \
    /* of no known access, of two and of four */ \
    V(unknown, "s",       touches(S(0), "unknown", NULL, 0)) \
    V(inplace, "sp",      in_place(S(0), a[1])) \
    V(rfour,  "sp",       four(S(0), a[1], CUDASIM_READ)) \
    V(wfour,  "sp",       four(S(0), a[1], CUDASIM_WRITE)) \
    /* the host */ \
    V(hw,     "hN",       host_writes(H(0), a[1])) \
    V(hr,     "hN",       host_reads(H(0), a[1])) \
    V(sync,   "s",        CHECK(cuStreamSynchronize(S(0)))) \
    V(esync,  "e",        CHECK(cuEventSynchronize(E(0)))) \
    V(csync,  "",         CHECK(cuCtxSynchronize())) \
    V(query,  "s",        until_done(cuStreamQuery(S(0)))) \
    V(equery, "e",        until_done(cuEventQuery(E(0)))) \
    V(use,    "c",        use(C(0))) \
    V(push,   "c",        CHECK(cuCtxPushCurrent(C(0)))) \
    V(pop,    "",         CHECK(cuCtxPopCurrent(&(CUcontext){NULL}))) \
    V(peers,  "c",        CHECK(cuCtxEnablePeerAccess(C(0), 0))) \
    V(nopeers, "c",       CHECK(cuCtxDisablePeerAccess(C(0)))) \
    V(cdel,   "c",        CHECK(cuCtxDestroy(C(0)))) \
    /* host functions: one that does nothing, that posts a semaphore, that ends an array's owner */ \
    V(host,   "s",        CHECK(cuLaunchHostFunc(S(0), run_nothing, NULL))) \
    V(post,   "s",        CHECK(cuLaunchHostFunc(S(0), post, NULL))) \
    V(postcb, "s",        CHECK(cuStreamAddCallback(S(0), post_in_callback, NULL, 0))) \
    V(await,  "",         await_post()) \
    V(hostup, "s",        CHECK(cuLaunchHostFunc(S(0), raises, NULL))) \
    V(hostsay, "s",       CHECK(cuLaunchHostFunc(S(0), raises, &flags[0]))) \
    /* threads: raise flag 0 or 1 and see it, which orders nothing unless one said and one heard it */ \
    V(join,   "",         join()) \
    V(up,     "D",        raise_flag(FLAG)) \
    V(seen,   "D",        await_flag(FLAG)) \
    V(say,    "D",        cudasim_hb_before(FLAG)) \
    V(heard,  "D",        cudasim_hb_after(FLAG)) \
    /* a semaphore, a condition, a barrier of two, mutex 0 or 1, and a lock for reading or writing */ \
    V(posts,  "",         post(NULL)) \
    V(trysem, "",         CHECK(sem_trywait(&posted))) \
    V(ready,  "",         signal_ready()) \
    V(isready, "",        await_ready()) \
    V(meet,   "",         pthread_barrier_wait(&barrier)) \
    V(lock,   "D",        CHECK(pthread_mutex_lock(MUTEX))) \
    V(try,    "D",        CHECK(pthread_mutex_trylock(MUTEX))) \
    V(unlock, "D",        CHECK(pthread_mutex_unlock(MUTEX))) \
    V(rdlock, "",         CHECK(pthread_rwlock_rdlock(&rwlock))) \
    V(wrlock, "",         CHECK(pthread_rwlock_wrlock(&rwlock))) \
    V(rwunlock, "",       CHECK(pthread_rwlock_unlock(&rwlock))) \
    /* a spin lock, a mutex of C11, and a write that is waited for, once */ \
    V(spin,   "",         CHECK(pthread_spin_lock(&spinlock))) \
    V(unspin, "",         CHECK(pthread_spin_unlock(&spinlock))) \
    V(mtx,    "",         CHECK(mtx_lock(&c_mutex) != thrd_success)) \
    V(unmtx,  "",         CHECK(mtx_unlock(&c_mutex) != thrd_success)) \
    V(once,   "sp",       write_once(S(0), a[1])) \
    V(hgone,  "sa",       CHECK(cuLaunchHostFunc(S(0), destroys, ARRAY(1)))) \
    /* events: one of its own from stream to stream; record event in stream; stream waits */ \
    V(ord,    "ss",       order(S(0), S(1))) \
    V(rec,    "es",       CHECK(cuEventRecord(E(0), S(1)))) \
    V(recx,   "es",       CHECK(cuEventRecordWithFlags(E(0), S(1), CU_EVENT_RECORD_EXTERNAL))) \
    V(wait,   "se",       CHECK(cuStreamWaitEvent(S(0), E(1), 0))) \
    V(waitx,  "se",       CHECK(cuStreamWaitEvent(S(0), E(1), CU_EVENT_WAIT_EXTERNAL))) \
    /* the end of handles and memory */ \
    V(sdel,   "s",        CHECK(cuStreamDestroy(S(0)))) \
    V(edel,   "e",        CHECK(cuEventDestroy(E(0)))) \
    V(alloc,  "",         CHECK(cuMemAlloc(&(CUdeviceptr){0}, N))) \
    V(free,   "p",        CHECK(cuMemFree(a[0]))) \
    V(freeh,  "h",        CHECK(cuMemFreeHost(H(0)))) \
    V(afree,  "sp",       CHECK(cuMemFreeAsync(a[1], S(0)))) \
    V(unmap,  "p",        CHECK(cuMemUnmap(a[0], size_of_mapping()))) \
    /* an allocator's parts */ \
    V(take,   "spN",      cudasim_suballoc(H(1), a[2], S(0))) \
    V(give,   "spN",      cudasim_subfree(H(1), a[2], S(0))) \
    /* fills and copies, to before from; those with s in front are the synchronous ones */ \
    V(fill,   "spN",      CHECK(cuMemsetD8Async(a[1], 1, a[2], S(0)))) \
    V(fill16, "spn",      CHECK(cuMemsetD16Async(a[1], 1, a[2], S(0)))) \
    V(fill32, "spn",      CHECK(cuMemsetD32Async(a[1], 1, a[2], S(0)))) \
    V(fill2d, "spnnn",    CHECK(cuMemsetD2D32Async(a[1], a[2], 1, a[3], a[4], S(0)))) /* as rows */ \
    V(copy,   "sppN",     CHECK(cuMemcpyAsync(a[1], a[2], a[3], S(0)))) \
    V(scopy,  "ppN",      CHECK(cuMemcpy(a[0], a[1], a[2]))) \
    V(htod,   "sphN",     CHECK(cuMemcpyHtoDAsync(a[1], H(2), a[3], S(0)))) \
    V(dtoh,   "shpN",     CHECK(cuMemcpyDtoHAsync(H(1), a[2], a[3], S(0)))) \
    V(dtod,   "sppN",     CHECK(cuMemcpyDtoDAsync(a[1], a[2], a[3], S(0)))) \
    V(peer,   "spcpcN",   CHECK(cuMemcpyPeerAsync(a[1], C(2), a[3], C(4), a[5], S(0)))) \
    /* pitch, width, height; and from which byte of which row on */ \
    V(rows,   "sppnnnDD", copy_rows(S(0), rows(a + 1, CU_MEMORYTYPE_DEVICE))) \
    V(hrows,  "shpnnn",   copy_rows(S(0), rows(a + 1, CU_MEMORYTYPE_HOST))) \
    V(shrows, "hpnnn",    copy_rows_now(rows(a, CU_MEMORYTYPE_HOST))) \
    V(sfill,  "pN",       CHECK(cuMemsetD8(a[0], 1, a[1]))) \
    V(shtod,  "phN",      CHECK(cuMemcpyHtoD(a[0], H(1), a[2]))) \
    V(sdtoh,  "hpN",      CHECK(cuMemcpyDtoH(H(0), a[1], a[2]))) \
    V(sdtod,  "ppN",      CHECK(cuMemcpyDtoD(a[0], a[1], a[2]))) \
    V(speer,  "pcpcN",    CHECK(cuMemcpyPeer(a[0], C(1), a[2], C(3), a[4]))) \
    /* numbers of 32 bits: written by a stream, by a call, set to 0, and waited for */ \
    V(put,    "spn",      CHECK(cuStreamWriteValue32(S(0), a[1], (cuuint32_t)a[2], 0))) \
    V(put64,  "spn",      CHECK(cuStreamWriteValue64(S(0), a[1], a[2], 0))) \
    V(eq64,   "spn",      CHECK(cuStreamWaitValue64(S(0), a[1], a[2], CU_STREAM_WAIT_VALUE_EQ))) \
    V(bput,   "spn",      in_a_batch(S(0), a[1], CU_STREAM_MEM_OP_WRITE_VALUE_32, a[2])) \
    V(bgeq,   "spn",      in_a_batch(S(0), a[1], CU_STREAM_MEM_OP_WAIT_VALUE_32, a[2])) \
    V(sput,   "pn",       CHECK(cuMemsetD32(a[0], (unsigned)a[1], 1))) \
    V(reset,  "sp",       CHECK(cuMemsetD32Async(a[1], 0, 1, S(0)))) \
    V(geq,    "spn",      await_value(S(0), a[1], a[2], CU_STREAM_WAIT_VALUE_GEQ)) \
    V(eq,     "spn",      await_value(S(0), a[1], a[2], CU_STREAM_WAIT_VALUE_EQ)) \
    V(and,    "spn",      await_value(S(0), a[1], a[2], CU_STREAM_WAIT_VALUE_AND)) \
    V(nor,    "spn",      await_value(S(0), a[1], a[2], CU_STREAM_WAIT_VALUE_NOR)) \
    /* by the host: written, cleared unseen, read until it is not 0, and which number that was */ \
    V(hput,   "hn",       host_puts(H(0), (uint32_t)a[1])) \
    V(clear,  "h",        *(volatile uint32_t *)H(0) = 0) \
    V(poll,   "h",        poll(H(0))) \
    V(hgeq,   "hn",       cudasim_host_waited(H(0), 4, a[1], CU_STREAM_WAIT_VALUE_GEQ)) \
    V(heq,    "hn",       cudasim_host_waited(H(0), 4, a[1], CU_STREAM_WAIT_VALUE_EQ)) \
    /* graphs */ \
    V(begin,  "sD",       CHECK(cuStreamBeginCapture(S(0), (CUstreamCaptureMode)a[1]))) \
    V(mode,   "n",        CHECK(cuThreadExchangeStreamCaptureMode(&(CUstreamCaptureMode){a[0]}))) \
    V(asks,   "s",        CHECK(cuStreamIsCapturing(S(0), &(CUstreamCaptureStatus){0}))) \
    V(endcap, "s",        CHECK(cuStreamEndCapture(S(0), &(CUgraph){NULL}))) \
    V(launch, "sx",       CHECK(cuGraphLaunch(EXEC(1), S(0)))) \
    V(gdrop,  "g",        CHECK(cuGraphDestroy(GRAPH(0)))) \
    V(xdrop,  "x",        CHECK(cuGraphExecDestroy(EXEC(0)))) \
    /* exchange: a consumer begins and ends, for reading, writing, both; begins, reads and ends */ \
    V(exp,    "a",        exports(ARRAY(0))) \
    V(beg,    "as",       begins(ARRAY(0), S(1), CUDASIM_READ)) \
    V(begw,   "as",       begins(ARRAY(0), S(1), CUDASIM_WRITE)) \
    V(begrw,  "as",       begins(ARRAY(0), S(1), CUDASIM_READ | CUDASIM_WRITE)) \
    V(fin,    "as",       ends(ARRAY(0), S(1), CUDASIM_READ)) \
    V(finw,   "as",       ends(ARRAY(0), S(1), CUDASIM_WRITE)) \
    V(finrw,  "as",       ends(ARRAY(0), S(1), CUDASIM_READ | CUDASIM_WRITE)) \
    V(look,   "as",       reads_properly(ARRAY(0), S(1))) \
    V(gone,   "a",        destroys(ARRAY(0))) \
    V(colw,   "as",       writes_strided(S(1), COLUMN(0))) \
    V(colr,   "as",       reads_strided(S(1), COLUMN(0))) \
    /* notes alone: began, waited for by the host, released after the work of a stream */ \
    V(began,  "as",       notify(CUDASIM_CAI_BEGIN, ARRAY(0), S(1), CUDASIM_READ)) \
    V(synced, "a",        notify(CUDASIM_CAI_SYNCHRONIZE, ARRAY(0), NULL, CUDASIM_READ)) \
    V(after,  "as",       notify(CUDASIM_CAI_RELEASE_AFTER, ARRAY(0), S(1), 0)) \
    /* refused, with a status and by a rule */ \
    V(nobeg,  "asnD",     refused(CUDASIM_CAI_BEGIN, ARRAY(0), S(1), a[2], a[3])) \
    V(nofin,  "asnD",     refused(CUDASIM_CAI_END, ARRAY(0), S(1), a[2], a[3])) \
    V(noexp,  "anD",      refused(CUDASIM_CAI_EXPORT, ARRAY(0), NULL, a[1], a[2])) \
    V(nosync, "anD",      refused(CUDASIM_CAI_SYNCHRONIZE, ARRAY(0), NULL, a[1], a[2])) \
    VERBS_12_5(V) VERBS_12_8(V) VERBS_13_0(V)

#if CUDA_VERSION >= 12050
#define VERBS_12_5(V) \
    /* an event of all streams of a context, and all of them wait */ \
    V(crec,   "ce",       CHECK(cuCtxRecordEvent(C(0), E(1)))) \
    V(cwait,  "ce",       CHECK(cuCtxWaitEvent(C(0), E(1))))
#else
#define VERBS_12_5(V)
#endif

#if CUDA_VERSION >= 12080
#define MAKERS_12_8(M) \
    M(green,  'G', "D",   HANDLE(green_on((int)a[0]))) \
    M(in,     's', "G",   HANDLE(stream_in(GREEN(0)))) /* a stream of a green context */ \
    M(as,     'c', "G",   HANDLE(context_of(GREEN(0))))
#define VERBS_12_8(V) \
    V(grec,   "Ge",       CHECK(cuGreenCtxRecordEvent(GREEN(0), E(1)))) \
    V(gwait,  "Ge",       CHECK(cuGreenCtxWaitEvent(GREEN(0), E(1)))) \
    V(gdel,   "G",        CHECK(cuGreenCtxDestroy(GREEN(0))))
#else
#define MAKERS_12_8(M)
#define VERBS_12_8(V)
#endif

#if CUDA_VERSION >= 13000
#define VERBS_13_0(V) \
    V(disc,     "spN",    discard(S(0), a[1], a[2])) \
    V(discpre,  "spN",    discard_and_prefetch(S(0), a[1], a[2])) \
    /* a batch of one copy, whose source is read in stream order, during the call, at any time */ \
    V(batch,    "spp",    batch(S(0), a[1], a[2], CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)) \
    V(batchnow, "spp",    batch(S(0), a[1], a[2], CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)) \
    V(batchany, "spp",    batch(S(0), a[1], a[2], CU_MEMCPY_SRC_ACCESS_ORDER_ANY))
#else
#define VERBS_13_0(V)
#endif
// clang-format on

static CUdeviceptr alloc_in(CUstream stream, size_t n) {
    CUdeviceptr at;
    CHECK(cuMemAllocAsync(&at, n, stream));
    return at;
}

static CUdeviceptr alloc_from_pool(CUstream stream) {
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr at;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemAllocFromPoolAsync(&at, N, pool, stream));
    return at;
}

static CUstream with_priority(unsigned flags) {
    CUstream stream;
    CHECK(cuStreamCreateWithPriority(&stream, flags, 0));
    return stream;
}

static void *registered(void) {
    void *host = aligned_alloc(4096, 4096);
    memset(host, 0, 4096);
    CHECK(cuMemHostRegister(host, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    return host;
}

static CUdeviceptr device_address(void *host) {
    CUdeviceptr at;
    CHECK(cuMemHostGetDevicePointer(&at, host, 0));
    return at;
}

static void *unregistered(void) {
    void *host = registered();
    CHECK(cuMemHostUnregister(host));
    return host;
}

static CUgraph clone_of(CUgraph graph) {
    CUgraph made;
    CHECK(cuGraphClone(&made, graph));
    return made;
}

static CUdeviceptr ready_flag(void) {
    CUdeviceptr made = alloc(8);
    CHECK(cuMemsetD8(made, 0, 8));
    CHECK(cuCtxSynchronize());
    return made;
}

static sem_t posted; // zero posts

static void post(void *data) {
    (void)data;
    sem_post(&posted);
}

static void CUDA_CB post_in_callback(CUstream stream, CUresult result, void *data) {
    (void)stream;
    (void)result;
    post(data);
}

static void await_post(void) {
    while (sem_wait(&posted) != 0) {
    }
}

static atomic_int flags[2];
#define FLAG (&flags[a[0] % 2])

static void raises(void *said) {
    if (said != NULL) cudasim_hb_before(said);
    raise_flag(&flags[0]);
}

static pthread_mutex_t mutexes[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
#define MUTEX (&mutexes[a[0] % 2])
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spinlock;
static mtx_t c_mutex;

static CUstream stream_once;
static CUdeviceptr at_once;

static void write_and_wait(void) {
    writes(stream_once, at_once, N);
    CHECK(cuStreamSynchronize(stream_once));
}

static void write_once(CUstream stream, CUdeviceptr at) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    stream_once = stream, at_once = at;
    CHECK(pthread_once(&once, write_and_wait));
}
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready; // guarded by the first mutex

static void signal_ready(void) {
    pthread_mutex_lock(&mutexes[0]);
    ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutexes[0]);
}

static void await_ready(void) {
    pthread_mutex_lock(&mutexes[0]);
    while (!ready)
        pthread_cond_wait(&condition, &mutexes[0]);
    pthread_mutex_unlock(&mutexes[0]);
}

enum { MAX_THREADS = 4 };
static pthread_t threads[MAX_THREADS];
static size_t thread_count;

static void join(void) {
    for (size_t i = 0; i < thread_count; ++i)
        finish(threads[i]);
    thread_count = 0;
}

#define COLUMN(i) ARRAY(i)->at, ARRAY(i)->n, ARRAY(i)->rows, ARRAY(i)->pitch

static void refused(unsigned kind, const struct array *array, CUstream consumer, uint64_t status,
                    uint64_t rule) {
    notify_refused(kind, array, consumer, CUDASIM_READ, status, rule);
}

static void claims_matrix(CUstream stream, CUdeviceptr at, const int64_t shape[4]) {
    cudasim_access access = range(at, 4, CUDASIM_WRITE);
    access.ndim = 2;
    for (int i = 0; i < 2; ++i) {
        access.count[i] = shape[2 * i];
        access.stride[i] = shape[2 * i + 1];
    }
    CHECK(cudasim_launch(stream, "matrix", run_nothing, NULL, 0, &access, 1));
}

// To, from, pitch, bytes of a row, rows, first byte of a row, first row.
static CUDA_MEMCPY2D rows(const uint64_t *a, CUmemorytype to) {
    CUDA_MEMCPY2D how = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = a[1],
                         .srcPitch = a[2],
                         .dstMemoryType = to,
                         .dstPitch = a[2],
                         .WidthInBytes = a[3],
                         .Height = a[4],
                         .srcXInBytes = a[5],
                         .dstXInBytes = a[5],
                         .srcY = a[6],
                         .dstY = a[6]};
    if (to == CU_MEMORYTYPE_HOST) {
        how.dstHost = H(0);
    } else {
        how.dstDevice = a[0];
    }
    return how;
}

static void copy_rows(CUstream stream, CUDA_MEMCPY2D how) { CHECK(cuMemcpy2DAsync(&how, stream)); }
static void copy_rows_now(CUDA_MEMCPY2D how) { CHECK(cuMemcpy2D(&how)); }

// A query is repeated with its statement.
static _Thread_local int again;
static void until_done(CUresult result) {
    again = result == CUDA_ERROR_NOT_READY;
    if (!again) CHECK(result);
}

static void await_value(CUstream stream, CUdeviceptr at, uint64_t value, unsigned how) {
    CHECK(cuStreamWaitValue32(stream, at, (cuuint32_t)value, how));
}

static void in_a_batch(CUstream stream, CUdeviceptr at, unsigned operation, uint64_t value) {
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = (CUstreamBatchMemOpType)operation;
    op.waitValue.address = at;
    op.waitValue.value = (cuuint32_t)value;
    CHECK(cuStreamBatchMemOp(stream, 1, &op, 0));
}

static void host_puts(uint32_t *at, uint32_t value) {
    cudasim_host_write(at, 4);
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

// The checker does not see the loop.
static void poll(const uint32_t *at) {
    while (__atomic_load_n(at, __ATOMIC_ACQUIRE) == 0)
        cudasim_step(1);
}

#if CUDA_VERSION >= 12080
static CUgreenCtx green_on(int device) {
    CUdevResource all;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevResourceGenerateDesc(&desc, &all, 1));
    CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static CUstream stream_in(CUgreenCtx green) {
    CUstream stream;
    CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static CUcontext context_of(CUgreenCtx green) {
    CUcontext context;
    CHECK(cuCtxFromGreenCtx(&context, green));
    return context;
}
#endif

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp props;
    memset(&props, 0, sizeof props);
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

static size_t size_of_mapping(void) {
    const CUmemAllocationProp props = on_device();
    size_t size;
    CHECK(cuMemGetAllocationGranularity(&size, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return size;
}

static CUmemGenericAllocationHandle physical(void) {
    const CUmemAllocationProp props = on_device();
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, size_of_mapping(), &props, 0));
    return memory;
}

static CUmemGenericAllocationHandle imported(CUmemGenericAllocationHandle memory) {
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle made;
    int file;
    CHECK(cuMemExportToShareableHandle(&file, memory, type, 0));
    CHECK(cuMemImportFromShareableHandle(&made, (void *)(uintptr_t)file, type));
    return made;
}

static CUdeviceptr reserved(size_t count) {
    CUdeviceptr at;
    CHECK(cuMemAddressReserve(&at, count * size_of_mapping(), 0, 0, 0));
    return at;
}

static CUdeviceptr map_at(CUdeviceptr at, CUmemGenericAllocationHandle memory) {
    const CUmemAccessDesc access = {.location = on_device().location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t size = size_of_mapping();
    CHECK(cuMemMap(at, size, 0, memory, 0));
    CHECK(cuMemSetAccess(at, size, &access, 1));
    return at;
}

static CUdeviceptr map(CUmemGenericAllocationHandle memory) { return map_at(reserved(1), memory); }

static CUdeviceptr pair(void) {
    const CUdeviceptr first = map_at(reserved(2), physical());
    return map_at(first + size_of_mapping(), physical()) - N / 2;
}

#if CUDA_VERSION >= 13000
static void discard(CUstream stream, CUdeviceptr at, size_t n) {
    CHECK(cuMemDiscardBatchAsync(&at, &n, 1, 0, stream));
}

static void discard_and_prefetch(CUstream stream, CUdeviceptr at, size_t n) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    size_t first = 0;
    CHECK(cuMemDiscardAndPrefetchBatchAsync(&at, &n, 1, &here, &first, 1, 0, stream));
}

static void batch(CUstream stream, CUdeviceptr to, CUdeviceptr from, CUmemcpySrcAccessOrder when) {
    CUmemcpyAttributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.srcAccessOrder = when;
    size_t n = N, first = 0;
    CHECK(cuMemcpyBatchAsync(&to, &from, &n, 1, &attributes, &first, 1, stream));
}
#endif

#endif
