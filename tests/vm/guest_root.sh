# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Sourced by run_guest.sh: the guest's disk, kernel and initial RAM disk, from Debian's packages. Uses $here, $scratch,
# $work, say and skip of that script.
#
#   guest_root_key          names what make_guest_root would make
#   make_guest_root DIR     DIR/root.img, vmlinuz, initrd and kernel (its version); whole or not at all
#   make_disk DIR FILE MIB  an ext4 image of a directory with so much room

SUITE=bookworm
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
# The kernel wants something that makes initial RAM disks; the smallest will do, as nothing is configured here.
KERNEL_PACKAGES=(linux-image-cloud-amd64 tiny-initramfs)
GUEST_PACKAGES=(busybox-static coreutils diffutils kmod util-linux systemd
  # What INSTALL.md says, and the libraries that the programs are linked with.
  crun fuse3 libfuse3-3 libarchive13 libseccomp2 libfmt9 liblz4-1 liburing2 libxxhash0 libssl3 zlib1g libstdc++6)
# To find the root file system; all else is loaded from there.
BOOT_MODULES=(virtio_pci virtio_blk)

guest_root_key() { cat "$here/guest_root.sh" "$here/initrd_init.sh" | sha256sum | cut -c1-12; }

make_disk() {
  local blocks
  blocks=$(($(du -sm --apparent-size "$1" | cut -f1) * 5 / 4 + $3))
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -d "$1" "$2" "${blocks}M" >/dev/null
}

# From where this machine's own apt gets the suite.
apt_sources() {
  apt-get indextargets --format "deb [signed-by=$KEYRING] \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
    'Created-By: Packages' | { grep " $SUITE" || true; } | sort -u
}

# Unpacks the packages, without running any of their scripts.
unpack_packages() {
  local tree=$1 packages
  packages=$(IFS=,; echo "${GUEST_PACKAGES[*]},${KERNEL_PACKAGES[*]}")
  apt_sources >"$scratch/apt.list"
  [[ -s $scratch/apt.list ]] || skip "apt on this machine has no sources for $SUITE"
  apt-config dump | { grep -E '^Acquire::(https?|Check|Retries)' || true; } >"$scratch/apt.conf"
  unshare --mount mmdebstrap --quiet --mode=root --variant=extract --aptopt="$scratch/apt.conf" --include="$packages" \
    "$SUITE" "$tree" "$scratch/apt.list" >"$scratch/log" 2>&1 ||
    skip "mmdebstrap cannot get the guest's packages: $(tail -3 "$scratch/log")"
}

fill_tree() {
  local tree=$1 applet
  rm -rf "$tree"/usr/share/{doc,man,locale,info} "$tree"/var/cache/* "$tree"/etc/apt
  mkdir -p "$tree"/{dev,etc,payload,proc,root,run,sys,tmp,mnt}
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/etc/passwd"
  printf 'root:x:0:\n' >"$tree/etc/group"
  # For what no package has brought.
  "$tree/bin/busybox" --list-full | while read -r applet; do
    [[ -e $tree/$applet || -L $tree/$applet ]] || ln -s /bin/busybox "$tree/$applet"
  done
}

# busybox, the boot modules in the order in which they must be loaded, and /init.
make_initrd() {
  local tree=$1 version=$2 file=$3 initrd=$scratch/initrd module path
  mkdir -p "$initrd"/{bin,dev,proc,root,modules}
  cp "$tree/bin/busybox" "$initrd/bin/busybox"
  install -m 755 "$here/initrd_init.sh" "$initrd/init"
  for module in "${BOOT_MODULES[@]}"; do
    chroot "$tree" /sbin/modprobe -S "$version" --show-depends "$module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$scratch/modules"
  while read -r path; do
    cp "$tree$path" "$initrd/modules/"
    basename "$path" >>"$initrd/modules/order"
  done <"$scratch/modules"
  (cd "$initrd" && find . | "$tree/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$file"
}

make_guest_root() {
  local out=$scratch/root tree=$scratch/tree version
  say "making the guest's root file system"
  rm -rf "$work"/root-*
  mkdir -p "$out"
  unpack_packages "$tree"
  version=$(basename "$tree"/lib/modules/*)
  chroot "$tree" /sbin/depmod "$version"
  fill_tree "$tree"
  make_initrd "$tree" "$version" "$out/initrd"
  mv "$tree/boot/vmlinuz-$version" "$out/vmlinuz"
  rm -rf "${tree:?}/boot"
  make_disk "$tree" "$out/root.img" 2048
  echo "$version" >"$out/kernel"
  rm -rf "$tree"
  mv -T "$out" "$1"
}
