// cai.hpp: owners of C++ objects and errors. Each object is destroyed once, on every path.
// run: plain asan valgrind ages gcc
// The clang of these tests links an unwinder of its own, and exceptions here pass Rust's frames.
#include "cpp_test.hpp"

#include <csetjmp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// Neither of these two may be reached through a cast from its first member.
struct abstract {
    virtual ~abstract() = default;
    virtual int number() const = 0;
};
struct polymorphic : abstract, virtual counted {
    explicit polymorphic(int *count) : counted(count) {}
    int number() const override { return 7; }
};

struct alignas(64) wide {
    int *aligned;
    explicit wide(int *count) : aligned(count) {}
    wide(wide &&other) noexcept : aligned(std::exchange(other.aligned, nullptr)) {}
    ~wide() {
        if (aligned != nullptr && reinterpret_cast<std::uintptr_t>(this) % 64 == 0) ++*aligned;
    }
};

struct reluctant : counted {
    explicit reluctant(int *count) : counted(count) {}
    reluctant(reluctant &&other) : counted(std::move(other)) { throw std::runtime_error("stays"); }
};

TEST(one_reference) {
    int destroyed = 0;
    {
        const cai::owner a = cai::make_owner(counted(&destroyed));
        ASSERT(a && a.get() != nullptr && destroyed == 0);
    }
    ASSERT(destroyed == 1);
}

TEST(moves) {
    int first = 0, second = 0;
    cai::owner a = cai::make_owner(counted(&first));
    cai::owner b(std::move(a));
    ASSERT(!a && b && first == 0);
    cai::owner c = cai::make_owner(counted(&second));
    c = std::move(b); // releases the second
    ASSERT(!b && c && first == 0 && second == 1);
    cai::owner &same = c;
    c = std::move(same);
    ASSERT(c && first == 0);
    c.swap(a);
    ASSERT(a && !c && first == 0);
    a = cai::owner();
    ASSERT(first == 1 && second == 1);
    ASSERT(!cai::owner() && !cai::owner::adopt(nullptr) && !cai::owner().share());
    ASSERT(cai::owner().release() == nullptr);
}

TEST(through_the_table) {
    int destroyed = 0;
    cai_owner *raw = cai::make_owner(counted(&destroyed)).release();
    ASSERT(destroyed == 0 && raw->ops->struct_size == sizeof(cai_owner_ops));
    cai_array array = valid_array();
    array.owner = raw;
    ASSERT_STATUS(CAI_OK, cai_inline_retain(&array));
    ASSERT_STATUS(CAI_OK, cai_owner_retain(raw, nullptr));
    cai_owner_release(raw);
    cai_inline_release(&array);
    ASSERT(destroyed == 0 && array.owner == nullptr);
    cai_owner_release(raw);
    ASSERT(destroyed == 1);
}

TEST(kinds_of_objects) {
    int destroyed = 0;
    {
        const cai::owner a = cai::make_owner(polymorphic(&destroyed));
    }
    ASSERT(destroyed == 1);
    int aligned = 0;
    {
        const cai::owner a = cai::make_owner(wide(&aligned));
    }
    ASSERT(aligned == 1);
    const auto shared = std::make_shared<int>(7);
    {
        const cai::owner a = cai::make_owner(shared);
        const cai::owner b = a.share();
        ASSERT(shared.use_count() == 2);
    }
    ASSERT(shared.use_count() == 1);
    destroyed = 0;
    {
        const cai::owner a = cai::make_owner(std::make_unique<counted>(&destroyed));
    }
    ASSERT(destroyed == 1);
    std::vector<counted> several;
    several.emplace_back(&destroyed);
    several.emplace_back(&destroyed);
    destroyed = 0;
    {
        const cai::owner a = cai::make_owner(std::move(several));
    }
    ASSERT(destroyed == 2);
}

TEST(chains) {
    int destroyed = 0;
    {
        cai::owner inner = cai::make_owner(counted(&destroyed));
        const cai::owner outer = cai::make_owner(std::move(inner));
        ASSERT(!inner && destroyed == 0);
    }
    ASSERT(destroyed == 1);
    // A chain is destroyed in a loop, on a stack of any size.
    destroyed = 0;
    cai::owner last = cai::make_owner(counted(&destroyed));
    for (int link = 0; link < 1000000; ++link)
        last = cai::make_owner(std::move(last));
    std::thread([chain = std::move(last)]() mutable { chain = cai::owner(); }).join();
    ASSERT(destroyed == 1);
    // Owners of arrays of owners, too.
    destroyed = 0;
    cai_array raw = valid_array();
    raw.owner = cai::make_owner(counted(&destroyed)).release();
    cai::array array = cai::array::adopt(raw);
    for (int link = 0; link < 100000; ++link) {
        cai_array next = valid_array();
        next.owner = cai::make_owner(std::move(array)).release();
        array = cai::array::adopt(next);
    }
    array = cai::array();
    ASSERT(destroyed == 1);
}

// A link of a chain, which is destroyed before the link that holds it, as a member is.
struct ended {
    std::vector<int> *order;
    int number;
    ended(std::vector<int> *numbers, int mine) : order(numbers), number(mine) {}
    ended(ended &&other) noexcept
        : order(std::exchange(other.order, nullptr)), number(other.number) {}
    ~ended() {
        if (order != nullptr) order->push_back(number);
    }
};
// Destructions inside one another.
constexpr int deepest = 64;

struct link {
    ended pool;
    cai::owner member; // from the pool
};

cai::owner cpp_link(link &&made) { return cai::make_owner(std::move(made)); }
cai::owner c_link(link &&made) {
    cai_owner *raw = nullptr;
    ASSERT_STATUS(CAI_OK,
                  cai_owner_create(
                      new link(std::move(made)),
                      [](void *context) { delete static_cast<link *>(context); }, &raw, nullptr));
    return cai::owner::adopt(raw);
}
// The first of two owners is released by the library.
cai::owner c_array_link(link &&made) {
    static int ends;
    cai_array raw = valid_array();
    raw.owner = made.member ? made.member.release() : counting_owner(&ends);
    ASSERT_STATUS(CAI_OK, cai_array_attach(
                              &raw, new link{std::move(made.pool), {}},
                              [](void *context) { delete static_cast<link *>(context); }, nullptr));
    return cai::owner::adopt(raw.owner);
}
// An owner of neither, which bounds nothing.
struct foreign : cai_owner {
    link held;
    explicit foreign(link &&made) : cai_owner{&table}, held(std::move(made)) {}
    static void retain(cai_owner *) { ASSERT(false); }
    static void release(cai_owner *owner) { delete static_cast<foreign *>(owner); }
    static constexpr cai_owner_ops table = {sizeof(cai_owner_ops), 0, retain, release};
};
cai::owner foreign_link(link &&made) { return cai::owner::adopt(new foreign(std::move(made))); }

using maker = cai::owner (*)(link &&);

std::vector<int> order_of(std::initializer_list<maker> kinds, int links) {
    std::vector<int> order;
    order.reserve(static_cast<std::size_t>(links));
    cai::owner last;
    for (int number = 0; number < links; ++number) {
        const maker make = kinds.begin()[static_cast<std::size_t>(number) % kinds.size()];
        last = make(link{ended(&order, number), std::move(last)});
    }
    std::thread([chain = std::move(last)]() mutable { chain = cai::owner(); }).join();
    return order;
}

TEST(members_before_what_holds_them) {
    for (const maker kind : {cpp_link, c_link}) {
        for (const int links : {1, 2, 9, deepest - 1, deepest}) {
            const std::vector<int> order = order_of({kind}, links);
            for (int number = 0; number < links; ++number)
                ASSERT(order.at(static_cast<std::size_t>(number)) == number);
        }
        // What the deepest one releases comes directly after it.
        const int links = 3 * deepest;
        std::vector<int> expected;
        for (int number = links - deepest; number >= 0; --number)
            expected.push_back(number);
        for (int number = links - deepest + 1; number < links; ++number)
            expected.push_back(number);
        ASSERT(order_of({kind}, links) == expected);
    }
    // What the library releases itself is in order at any depth, and each kind counts by itself.
    for (const std::vector<int> &order :
         {order_of({c_array_link}, 1000), order_of({cpp_link, c_link}, 2 * deepest),
          order_of({foreign_link, cpp_link, c_array_link}, 3 * deepest)}) {
        for (std::size_t number = 0; number < order.size(); ++number)
            ASSERT(order[number] == static_cast<int>(number));
    }
}

// Chains of several kinds of owners take a bounded stack as well.
TEST(mixed_chains) {
    const int links = 100000;
    for (const auto &order :
         {order_of({cpp_link, c_link}, links), order_of({cpp_link, cpp_link, c_array_link}, links),
          order_of({foreign_link, cpp_link}, links),
          order_of({c_link, foreign_link, foreign_link, cpp_link, c_array_link}, links)}) {
        ASSERT(order.size() == static_cast<std::size_t>(links));
    }
}

// Which is undefined: what is being destroyed is lost. Later destructions run all the same.
std::jmp_buf after;
cai_owner *lost;

void later_destructions(int rounds, void (*leave)()) {
    for (volatile int round = 0; round < rounds; ++round) {
        if (setjmp(after) == 0) leave();
        ::operator delete(std::exchange(lost, nullptr));
    }
    int destroyed = 0;
    cai::owner last = cai::make_owner(counted(&destroyed));
    for (int number = 0; number < 1000; ++number) {
        last = number % 2 == 0 ? cai::make_owner(std::move(last))
                               : c_link(link{ended(nullptr, 0), std::move(last)});
    }
    last = cai::owner();
    ASSERT(destroyed == 1);
}

cai_owner *leaving() {
    cai_owner *raw = nullptr;
    ASSERT_STATUS(CAI_OK,
                  cai_owner_create(nullptr, [](void *) { std::longjmp(after, 1); }, &raw, nullptr));
    return raw;
}

TEST(left_by_longjmp) {
    // Through owners of C++, whose memory is lost. This comes first: what was left counts as long
    // as destructions run from deeper stack frames.
    later_destructions(200, [] {
        cai::owner outer = cai::make_owner(cai::owner::adopt(leaving()));
        lost = outer.release();
        lost->ops->release(lost);
    });
    later_destructions(200, [] { cai_owner_release(leaving()); });
}

// It passes through the library, which loses nothing.
TEST(thrown_by_destroy) {
    for (int depth = 1; depth < 3 * deepest; depth += 31) {
        int rest = 0;
        cai_array raw = valid_array();
        ASSERT_STATUS(CAI_OK, cai_owner_create(
                                  nullptr, [](void *) { throw std::runtime_error("in destroy"); },
                                  &raw.owner, nullptr));
        for (int link = 0; link < depth; ++link) {
            ASSERT_STATUS(
                CAI_OK,
                cai_array_attach(
                    &raw, &rest, [](void *context) { ++*static_cast<int *>(context); }, nullptr));
        }
        try {
            cai_array_release(&raw);
            ASSERT(false);
        } catch (const std::runtime_error &error) {
            ASSERT_TEXT("in destroy", error.what());
        }
        int destroyed = 0;
        cai_owner_release(counting_owner(&destroyed)); // and the rest
        ASSERT(destroyed == 1 && rest == depth && raw.owner == nullptr);
    }
}

TEST(exceptions) {
    int destroyed = 0;
    try {
        const cai::owner a = cai::make_owner(counted(&destroyed));
        const cai::owner b = a.share();
        throw std::runtime_error("leaves the scope");
    } catch (const std::runtime_error &) {
    }
    ASSERT(destroyed == 1);
    destroyed = 0;
    try {
        (void)cai::make_owner(reluctant(&destroyed));
        ASSERT(false);
    } catch (const std::runtime_error &) {
    }
    ASSERT(destroyed == 1);
}

TEST(broken_table) {
    cai_owner_ops table = {sizeof(cai_owner_ops), 0, nullptr, nullptr};
    cai_owner raw = {&table};
    const cai::owner broken = cai::owner::adopt(&raw);
    try {
        (void)broken.share();
        ASSERT(false);
    } catch (const cai::error &error) {
        ASSERT_STATUS(CAI_ERR_OWNER_OPS, error.code());
        ASSERT_CONTAINS(error.field(), "owner.ops");
    }
}

TEST(threads) {
    int destroyed = 0;
    {
        const cai::owner a = cai::make_owner(counted(&destroyed));
        std::vector<std::thread> all;
        for (int t = 0; t < 8; ++t) {
            all.emplace_back([mine = a.share()] {
                for (int i = 0; i < 10000; ++i) {
                    const cai::owner b = mine.share();
                    ASSERT(b.get() == mine.get());
                }
            });
        }
        for (std::thread &thread : all)
            thread.join();
        ASSERT(destroyed == 0);
    }
    ASSERT(destroyed == 1);
}

// The last reference is dropped on whatever thread is last.
TEST(last_on_another_thread) {
    for (int round = 0; round < 200; ++round) {
        int destroyed = 0;
        cai::owner a = cai::make_owner(counted(&destroyed));
        std::thread other([mine = a.share()]() mutable { mine = cai::owner(); });
        a = cai::owner();
        other.join();
        ASSERT(destroyed == 1);
    }
}

TEST(errors) {
    static_assert(std::is_base_of_v<std::exception, cai::error>);
    static_assert(std::is_nothrow_copy_constructible_v<cai::error>);
    cai_error why;
    cai_array array = valid_array();
    array.ndim = -1;
    const cai_status status = cai_array_validate(&array, CAI_CHECK_LAYOUT, &why);
    try {
        cai::check(status, why);
        ASSERT(false);
    } catch (const std::exception &caught) {
        ASSERT_TEXT("ndim: found -1, expected 0 to 64", caught.what());
        const auto &error = dynamic_cast<const cai::error &>(caught);
        const cai::error copy = error;
        ASSERT_STATUS(CAI_ERR_NDIM, copy.code());
        ASSERT_TEXT("CAI_ERR_NDIM", copy.name());
        ASSERT_TEXT("ndim", copy.field());
        ASSERT(copy.driver_code() == 0);
    }
    cai::check(CAI_OK, why);
    why.driver_code = 700;
    ASSERT(cai::error(why).driver_code() == 700);
    ASSERT(memcmp(&why, &static_cast<const cai_error &>(cai::error(why).get()), sizeof why) == 0);
    const std::string endless(1000, 'x');
    const cai::error cut(CAI_ERR_UNSUPPORTED, endless.c_str(), endless.c_str());
    ASSERT(strlen(cut.field()) == CAI_ERROR_FIELD_SIZE - 1);
    ASSERT(strlen(cut.what()) == CAI_ERROR_MESSAGE_SIZE - 1);
    ASSERT_TEXT("CAI_ERR_UNKNOWN", cai::error(-1, "", "").name());
    ASSERT_TEXT("shape: found 2", cai::error(CAI_ERR_NDIM, "shape", "found 2").what());
}

} // namespace

static_assert(!std::is_copy_constructible_v<cai::owner> && !std::is_copy_assignable_v<cai::owner>);
static_assert(std::is_nothrow_move_constructible_v<cai::owner> &&
              std::is_nothrow_move_assignable_v<cai::owner>);
