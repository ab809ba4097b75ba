#!/bin/bash
# Boots Debian's Xen with a Domain-0 in QEMU, without hardware virtualization, and runs cases of tests/peers/xen there.
#
# usage: run.sh NAME KIND CASE..      NAME: of the stages file, build/peers-NAME.stages; KIND: pv or pvh
# Packages are fetched and unpacked once, into build/xen-peer, not installed; no root is needed for that.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1 kind=$2
shift 2
cache=build/xen-peer
stages=build/peers-$name.stages
limit=${XEN_PEER_SECONDS:-240}
mkdir -p "$cache"
: >"$stages"

finish() {
	python3 tools/count.py --stages "$stages"
	exit $?
}

# fetch : the kernel, its two modules, Xen and busybox; what was cut short leaves no stamp
fetch() {
	local dir
	dir=$(mktemp -d "$PWD/$cache/new.XXXXXX") || return 1
	download "$dir" || { update && download "$dir"; } || return 1
	for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked" || return 1; done
	zcat "$dir"/unpacked/boot/xen-4.17-amd64.gz >"$cache/xen" &&
		python3 peers/xen/vmlinux.py "$dir"/unpacked/boot/vmlinuz-* "$cache/vmlinux" &&
		cp "$dir"/unpacked/lib/modules/*/kernel/drivers/xen/xen-{privcmd,evtchn}.ko "$dir/unpacked/bin/busybox" "$cache/" &&
		basename "$dir"/unpacked/boot/vmlinuz-* >"$cache/stamp"
	local code=$?
	rm -rf "$dir"
	return $code
}

# download DIR : of the kernel, the version that the lists know now
download() {
	local kernel
	kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
	[ -n "$kernel" ] && (cd "$1" && rm -f ./*.deb && apt-get download -q "$kernel" xen-hypervisor-4.17-amd64 busybox-static)
}

update() {
	local root=()
	[ "$(id -u)" = 0 ] || root=(sudo)
	"${root[@]}" apt-get update -q
}

# compile : the program that runs there; a build of its own, so that nothing else has to be built
compile() {
	local again=()
	[ ! -f build-peers/build.ninja ] || again=(--reconfigure)
	meson setup "${again[@]}" --buildtype=release -Dbench=disabled -Dman=disabled build-peers
	ninja -C build-peers -j "${JOBS:-$(nproc)}" tests/peers/xen/xen-peer tests/peers/xen/static-xen-populate \
		tests/peers/xen/static-xen-balloon
}

# boot CASE.. : the console goes to build/peers-NAME.console
boot() {
	local bin=build-peers/tests/peers/xen dir options machine=(-M pc)
	dir=$(mktemp -d)
	printf '%s ' "$@" >"$dir/cases"
	python3 peers/xen/initramfs.py "$dir/initramfs" bin/busybox="$cache/busybox" init=peers/xen/init \
		bin/xen-peer=$bin/xen-peer bin/xen-populate=$bin/static-xen-populate bin/xen-balloon=$bin/static-xen-balloon \
		bin/xen-privcmd.ko="$cache/xen-privcmd.ko" bin/xen-evtchn.ko="$cache/xen-evtchn.ko" cases="$dir/cases"
	options="console=com1 com1=115200,8n1 dom0_mem=512M,max:768M loglvl=none guest_loglvl=none bootscrub=0"
	if [ "$kind" = pvh ]; then
		options="$options dom0=pvh"
		machine=(-M q35 -device intel-iommu)
	fi
	timeout "$limit" qemu-system-x86_64 "${machine[@]}" -accel tcg -cpu qemu64,+svm,+npt,+pdpe1gb -smp 1 -m 3G \
		-nodefaults -display none -monitor none -no-reboot -serial "file:$dir/console" \
		-kernel "$cache/xen" -append "$options" \
		-initrd "$cache/vmlinux console=hvc0 quiet panic=-1,$dir/initramfs" </dev/null || true
	tr -d '\r\0' <"$dir/console" >"build/peers-$name.console"
	rm -rf "$dir"
}

[ -f "$cache/stamp" ] || fetch || { echo "failed xen-fetch" >>"$stages"; finish; }
echo "Xen 4.17 and Linux $(sed 's/^vmlinuz-//' "$cache/stamp"), Domain-0 is $kind"
compile >"build/peers-$name.build" 2>&1 || { tail -n 40 "build/peers-$name.build"; echo "failed xen-build" >>"$stages"; finish; }
boot "$@"
grep -av '^(XEN)' "build/peers-$name.console" | sed -n '/./p' | tail -n 200
for case in "$@"; do
	if grep -qax "passed $case" "build/peers-$name.console"; then word=passed; else word=failed; fi
	echo "$word xen-$kind-$case" >>"$stages"
done
if grep -qax 'XEN-PEER-EXIT=0' "build/peers-$name.console"; then word=passed; else word=failed; fi
echo "$word xen-$kind-verdict" >>"$stages"
finish
