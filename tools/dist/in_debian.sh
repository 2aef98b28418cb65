#!/bin/sh
# Run by test_debs.sh inside a fresh Debian, where /w has the packages, examples, and perhaps CUDA's headers.
set -eu
cd /w
apt="apt-get -qq --yes -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root"
export DEBIAN_FRONTEND=noninteractive
find / -xdev -not -path '/w/*' -not -path '/proc/*' | sort >/tmp/before

libc=$(dpkg-query --show --showformat='${Version}' libc6)
needed=$(dpkg-deb --field cuda-sim_*.deb Depends | sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p')
if dpkg --compare-versions "$libc" ge "$needed"; then
    simulator=yes
    $apt install ./libcai*.deb ./cuda-sim_*.deb >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
else
    simulator=no
    echo "libc6 $libc is older than cuda-sim needs ($needed): libcai alone"
    $apt install ./libcai*.deb >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
fi
dpkg --verify libcai1 libcai-dev
dpkg --audit

# No variable is set: the linker and the compiler find everything where Debian has it.
for example in 01_consume 02_produce 03_own_owner 04_header_only; do
    # shellcheck disable=SC2046 # words
    gcc -std=c99 -Wall -Wextra -Werror examples-c/$example.c -o /tmp/shared $(pkg-config --cflags --libs cai)
    # shellcheck disable=SC2046
    gcc -std=c99 examples-c/$example.c -o /tmp/static \
        $(pkg-config --cflags --libs --static cai | sed 's/-lcai/-l:libcai.a/')
    /tmp/shared >/tmp/shared.txt
    /tmp/static >/tmp/static.txt
    cmp /tmp/shared.txt /tmp/static.txt
    test -s /tmp/shared.txt
done
ldd /tmp/static | grep -q libcai && exit 1
g++ -std=c++17 examples-c/05_view.cpp -o /tmp/view -lcai
/tmp/view >/dev/null

cmake -S package -B /tmp/package -DCAI_FROM=find_package -DCMAKE_BUILD_TYPE=Release >/tmp/cmake.log 2>&1 ||
    { cat /tmp/cmake.log; exit 1; }
cmake --build /tmp/package >/tmp/cmake.log 2>&1 || { cat /tmp/cmake.log; exit 1; }
grep '^cai_DIR' /tmp/package/CMakeCache.txt | grep -q '/lib/[^/]*-linux-gnu/cmake/cai$'
for program in consumer_cai consumer_cai_static consumer_cpp_cai; do
    /tmp/package/$program | grep -q '^ok'
done

if [ $simulator = yes ]; then
    cuda-sim --version
    cat >/tmp/driver.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int count = 0;
    if (driver == NULL) {
        puts(dlerror());
        return 1;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*get)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    if (init(0) != 0 || get(&count) != 0 || count < 1) {
        return 2;
    }
    puts("a device");
    return 0;
}
C
    gcc /tmp/driver.c -o /tmp/driver -ldl
    ! /tmp/driver >/dev/null
    cuda-sim run -- /tmp/driver | grep -q '^a device$'
fi
if [ $simulator = yes ] && [ -d cuda ]; then
    sed -n '/^\/\* exchange\.c \*\/$/,/^```$/p' README.md | grep -v '^```' >exchange.c
    # shellcheck disable=SC2046
    gcc exchange.c -Icuda $(pkg-config --cflags --libs cai) -L"$(cuda-sim libdir)" -lcuda -o exchange
    cuda-sim run --rules=strict ./exchange | grep -qx 'The producer wrote 2.5, the consumer read 2.5.'
else
    echo "CUDA's headers (build/venv) or cuda-sim are not here: the README's first program is left out"
fi

$apt purge libcai1 libcai-dev >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
[ $simulator = no ] || $apt purge cuda-sim >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
find / -xdev -not -path '/w/*' -not -path '/proc/*' | sort >/tmp/after
left=$(comm -13 /tmp/before /tmp/after | grep -v '^/tmp/\|^/var/\|^/etc/ld.so.cache$' || true)
[ -z "$left" ] || { echo "left behind:"; echo "$left"; exit 1; }
