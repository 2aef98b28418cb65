#!/bin/sh
# Makes the C compiler that links for TARGET, as a program FILE: cc.sh TARGET FILE
#
# Zig's, because it has the symbols of every glibc. Its own unwinder would be linked for -lgcc_s; a thread that ends
# inside the library (pthread_exit) would then crash, for two unwinders cannot walk one stack. musl does not unwind
# such threads, and its systems do not all have libgcc_s.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/targets.sh"
target "$1"
tools=$(cd "$here/../.." && pwd)/build/dist-tools
zig=$("$tools/venv/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
cat >"$2" <<PROGRAM
#!/bin/sh
for argument; do
    shift
    case \$argument in
    -Wl,-O1) continue ;; # Zig knows one level only, and warns.
    -lgcc_s) argument=${gcc_s:+$tools/debian/root}${gcc_s:--lgcc_s} ;;
    esac
    set -- "\$@" "\$argument"
done
exec "$zig" cc -target $zig_target "\$@"
PROGRAM
chmod +x "$2"
