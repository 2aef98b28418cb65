# Sourced: gives apt a configuration and a state of its own in the current folder, for one release of Debian.
#
# Sets APT_CONFIG, and updates the lists. Neither root nor the machine's sources are needed, and nothing is
# installed. Expects kind=deb or deb-src, suite=NAME, and perhaps more_archs=NAME. Needs apt-get and the archive keys of Debian, as
# every Debian and Ubuntu has them. Signatures are checked; a mirror may be behind.
arch=$(dpkg --print-architecture)
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror that this machine uses, where it is a Debian.
mirror=${DEBIAN_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -o 'https\{0,1\}://[^ ]*/debian/\{0,1\}\( \|$\)' | head -n 1)}
[ -n "$mirror" ] || { echo "set DEBIAN_MIRROR to a mirror of the Debian archive" >&2; exit 2; }

mkdir -p apt/state/lists/partial apt/cache/archives/partial apt/etc/apt.conf.d apt/etc/preferences.d
: >apt/status
echo "$kind [signed-by=$keys] $mirror $suite main" >apt/sources.list
cat >apt/apt.conf <<CONFIGURATION
Dir::Etc "$PWD/apt/etc";
Dir::Etc::SourceList "$PWD/apt/sources.list";
Dir::State "$PWD/apt/state";
Dir::State::Status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
APT::Architecture "$arch";
APT::Architectures { "$arch"; ${more_archs:+\"$more_archs\";} };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Debug::NoLocking "true";
CONFIGURATION
export APT_CONFIG="$PWD/apt/apt.conf"
apt-get -qq update
