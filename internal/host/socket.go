package host

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Socket is a TCP or UDP socket, as the kernel tells of it: sock_diag(7).
type Socket struct {
	Protocol string // tcp or udp
	State    SocketState
	// Local and Remote are in the namespace that the socket is in. A port that podman
	// publishes is forwarded by the firewall, so that who connects and who is
	// connected to have different addresses for it. Remote is the zero AddrPort
	// where the socket is listening. IPv4 in IPv6 is told as IPv4.
	Local, Remote netip.AddrPort
	// Inode is the socket's, of which there is one on the whole machine; 0 where no
	// process has it yet, or any more.
	Inode uint64
	UID   uint32 // who made it
	// Maker is the cgroup that the socket was made in, as [Process.Cgroup] is. Who has
	// it now may be elsewhere: what listens for a published port was made in the cgroup
	// of podman, which gives it to conmon, and what systemd listens on for a service in
	// that of the .socket unit, or in init.scope where the kernel has no BPF. It is
	// known without root as well.
	Maker string
	// Process is one that has the socket: see [FindProcesses].
	Process
}

// SocketState is whether a socket waits for others, or is connected to one.
type SocketState uint8

// The states. A UDP socket that is bound and not connected is listening.
const (
	Listening SocketState = iota + 1
	Established
)

func (s SocketState) String() string {
	switch s {
	case Listening:
		return "listening"
	case Established:
		return "established"
	}
	return strconv.Itoa(int(s))
}

// Sockets returns the sockets in that state in the network namespace of the process
// pid, or that of the caller where pid is 0, by protocol, address and inode. Listening
// ones are of TCP and UDP, and cost no more where there are many connections;
// established ones are of TCP. Their Process is for [FindProcesses] to find.
//
// Who may not enter the namespace, as root alone may, gets an error that is
// [os.ErrPermission]; where the process has ended it is [os.ErrNotExist]. One's own
// namespace tells anybody of all its sockets.
func Sockets(ctx context.Context, pid int, state SocketState) ([]Socket, error) {
	fd, err := diagnostics(pid)
	if err != nil {
		return nil, fmt.Errorf("sockets of process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	makers := cgroups{paths: map[uint64]string{}}
	var sockets []Socket
	for _, q := range queries(state) {
		err := dump(ctx, fd, q, func(m diagMessage, maker uint64) {
			s := m.socket(q)
			s.Maker = makers.path(maker)
			sockets = append(sockets, s)
		})
		if err != nil {
			return nil, fmt.Errorf("%s %s sockets of process %d: %w", state, q.name(), pid, err)
		}
	}
	slices.SortFunc(sockets, func(a, b Socket) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), a.Local.Compare(b.Local), a.Remote.Compare(b.Remote),
			cmp.Compare(a.Inode, b.Inode))
	})
	return sockets, nil
}

// NetworkNamespace returns the number of the network namespace that the process pid
// is in, or the caller where pid is 0: those of a pod's containers are one. The errors
// are those of [Sockets].
func NetworkNamespace(pid int) (uint64, error) {
	var st unix.Stat_t
	path := namespacePath(pid)
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Ino, nil
}

func namespacePath(pid int) string {
	if pid == 0 {
		return "/proc/thread-self/ns/net" // the first thread may be elsewhere
	}
	return fmt.Sprintf("/proc/%d/ns/net", pid)
}

// diagnostics opens a netlink socket that tells of the network namespace of a process.
func diagnostics(pid int) (fd int, err error) {
	if pid == 0 {
		return openDiagnostics()
	}
	namespace, err := os.Open(namespacePath(pid))
	if err != nil {
		return -1, err
	}
	defer func() { _ = namespace.Close() }() // read-only
	done := make(chan struct{})
	go func() {
		defer close(done)
		fd, err = openWithin(int(namespace.Fd()))
	}()
	<-done
	return fd, err
}

// openWithin is openDiagnostics in another network namespace, which the socket then
// stays in. It has to be called on a goroutine of its own: a thread that does not get
// back to where it was ends with that.
func openWithin(namespace int) (int, error) {
	runtime.LockOSThread()
	own, err := os.Open(namespacePath(0))
	if err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	defer func() { _ = own.Close() }() // read-only
	if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return -1, os.NewSyscallError("setns", err)
	}
	fd, err := openDiagnostics()
	if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return fd, err
}

func openDiagnostics() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	return fd, os.NewSyscallError("socket", err)
}

// query is what one dump asks for.
type query struct {
	family, protocol uint8
	state            SocketState
}

func queries(state SocketState) []query {
	list := []query{{unix.AF_INET, unix.IPPROTO_TCP, state}, {unix.AF_INET6, unix.IPPROTO_TCP, state}}
	if state == Listening {
		list = append(list, query{unix.AF_INET, unix.IPPROTO_UDP, state}, query{unix.AF_INET6, unix.IPPROTO_UDP, state})
	}
	return list
}

func (q query) name() string {
	if q.protocol == unix.IPPROTO_UDP {
		return "udp"
	}
	return "tcp"
}

// The kernel's names for states, of include/net/tcp_states.h.
const (
	tcpEstablished = 1
	tcpClose       = 7 // of UDP: not connected
	tcpListen      = 10
)

// states are those that the kernel is asked for, a bit for each.
func (q query) states() uint32 {
	switch {
	case q.state == Established:
		return 1 << tcpEstablished
	case q.protocol == unix.IPPROTO_UDP:
		return 1 << tcpClose
	}
	return 1 << tcpListen
}

// diagSockID, diagRequest and diagMessage are inet_diag_sockid, inet_diag_req_v2 and
// inet_diag_msg of linux/inet_diag.h. Ports and addresses are in the order of the
// network, the rest in that of the machine.
type diagSockID struct {
	Sport, Dport [2]byte
	Src, Dst     [16]byte
	Interface    uint32
	Cookie       [2]uint32
}

type diagRequest struct {
	Family, Protocol, Ext, Pad uint8
	States                     uint32
	ID                         diagSockID
}

type diagMessage struct {
	Family, State, Timer, Retrans    uint8
	ID                               diagSockID
	Expires, ReceiveQueue, SendQueue uint32
	UID, Inode                       uint32
}

// diagCgroupID is INET_DIAG_CGROUP_ID: the cgroup that a socket was made in. Linux
// tells it from 5.9 on, without being asked.
const diagCgroupID = 21

func (m diagMessage) socket(q query) Socket {
	s := Socket{Protocol: q.name(), State: q.state, Inode: uint64(m.Inode), UID: m.UID}
	s.Local = m.address(m.ID.Src, m.ID.Sport)
	if q.state == Established {
		s.Remote = m.address(m.ID.Dst, m.ID.Dport)
	}
	return s
}

func (m diagMessage) address(ip [16]byte, port [2]byte) netip.AddrPort {
	address := netip.AddrFrom16(ip).Unmap()
	if m.Family == unix.AF_INET {
		address = netip.AddrFrom4([4]byte(ip[:4]))
	}
	if address.Is6() && address.IsLinkLocalUnicast() && m.ID.Interface != 0 {
		address = address.WithZone(strconv.Itoa(int(m.ID.Interface)))
	}
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(port[:]))
}

// dump asks one question and calls found for each socket of the answer, with the id
// of the cgroup that it was made in, or 0.
func dump(ctx context.Context, fd int, q query, found func(m diagMessage, maker uint64)) error {
	request, err := q.encode()
	if err != nil {
		return err
	}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer := make([]byte, 64<<10) // the kernel sends no more than 32 KiB at once
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return err
		}
		if done, err := decode(messages, found); done || err != nil {
			return err
		}
	}
}

func (q query) encode() ([]byte, error) {
	body := diagRequest{Family: q.family, Protocol: q.protocol, States: q.states()}
	header := unix.NlMsghdr{
		Len:   uint32(unix.SizeofNlMsghdr + binary.Size(body)), //nolint:gosec // 72
		Type:  unix.SOCK_DIAG_BY_FAMILY,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP,
	}
	text, err := binary.Append(nil, binary.NativeEndian, header)
	if err != nil {
		return nil, err
	}
	return binary.Append(text, binary.NativeEndian, body)
}

// decode reports whether the dump is at its end.
func decode(messages []syscall.NetlinkMessage, found func(m diagMessage, maker uint64)) (done bool, err error) {
	for _, message := range messages {
		switch message.Header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			return true, dumpError(message.Data)
		case unix.SOCK_DIAG_BY_FAMILY:
			var m diagMessage
			n, err := binary.Decode(message.Data, binary.NativeEndian, &m)
			if err != nil {
				return true, err
			}
			found(m, cgroupID(message.Data[n:]))
		}
	}
	return false, nil
}

// dumpError is an nlmsgerr. ENOENT is of a kernel that has no tcp_diag or udp_diag.
func dumpError(data []byte) error {
	if len(data) < 4 {
		return unix.EBADMSG
	}
	number := int32(binary.NativeEndian.Uint32(data)) //nolint:gosec // it is one
	if errno := syscall.Errno(-number); errno != unix.ENOENT {
		return errno
	}
	return errNoDiagnostics
}

var errNoDiagnostics = errors.New("the kernel does not tell: it has no module tcp_diag or udp_diag")

// cgroupID finds INET_DIAG_CGROUP_ID among attributes, which begin at multiples of 4.
func cgroupID(attributes []byte) uint64 {
	for len(attributes) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(attributes))
		if size < unix.SizeofNlAttr || size > len(attributes) {
			return 0
		}
		if binary.NativeEndian.Uint16(attributes[2:]) == diagCgroupID && size == unix.SizeofNlAttr+8 {
			return binary.NativeEndian.Uint64(attributes[unix.SizeofNlAttr:])
		}
		attributes = attributes[min((size+3)&^3, len(attributes)):]
	}
	return 0
}
