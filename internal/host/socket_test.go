package host

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inode returns that of a socket of this process.
func inode(t testing.TB, c syscall.Conn) (n uint64) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := errors.Join(raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }), err); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func listenTCP(t testing.TB, address string) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect returns both ends of a connection to a listener.
func connect(t testing.TB, l *net.TCPListener) (client, server *net.TCPConn) {
	t.Helper()
	client, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addrPort(l.Addr())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// look returns the sockets in that state, their processes found.
func look(t testing.TB, pid int, state SocketState) []Socket {
	t.Helper()
	sockets, err := Sockets(t.Context(), pid, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := FindProcesses(t.Context(), sockets); err != nil {
		t.Fatal(err)
	}
	return sockets
}

// of returns the one with that inode, without its maker, which is not the same
// everywhere that a test runs.
func of(sockets []Socket, inode uint64) Socket {
	i := slices.IndexFunc(sockets, func(s Socket) bool { return s.Inode == inode })
	if i < 0 {
		return Socket{}
	}
	s := sockets[i]
	s.Maker = ""
	return s
}

func thisProcess(t testing.TB) Process {
	t.Helper()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: os.Getpid(), Command: strings.TrimSpace(string(comm)), Cgroup: cgroupOf("self")}
}

func addrPort(a net.Addr) netip.AddrPort {
	p := netip.MustParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

func TestSocketsOfThisProcess(t *testing.T) {
	v4, every := listenTCP(t, "127.0.0.1:0"), listenTCP(t, "[::]:0")
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	connected, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addrPort(udp.LocalAddr())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connected.Close() }()
	client, server := connect(t, v4)
	mapped, mappedServer := connect(t, every)

	listening, established := look(t, 0, Listening), look(t, 0, Established)
	uid, process := uint32(os.Getuid()), thisProcess(t)
	for what, c := range map[string]struct {
		socket syscall.Conn
		want   Socket
	}{
		"tcp":                {v4, Socket{Protocol: "tcp", State: Listening, Local: addrPort(v4.Addr())}},
		"every interface":    {every, Socket{Protocol: "tcp", State: Listening, Local: addrPort(every.Addr())}},
		"udp":                {udp, Socket{Protocol: "udp", State: Listening, Local: addrPort(udp.LocalAddr())}},
		"client":             {client, Socket{Protocol: "tcp", State: Established, Local: addrPort(client.LocalAddr()), Remote: addrPort(v4.Addr())}},
		"server":             {server, Socket{Protocol: "tcp", State: Established, Local: addrPort(v4.Addr()), Remote: addrPort(client.LocalAddr())}},
		"client of [::]":     {mapped, Socket{Protocol: "tcp", State: Established, Local: addrPort(mapped.LocalAddr()), Remote: addrPort(mapped.RemoteAddr())}},
		"server behind [::]": {mappedServer, Socket{Protocol: "tcp", State: Established, Local: addrPort(mappedServer.LocalAddr()), Remote: addrPort(mapped.LocalAddr())}},
	} {
		c.want.Inode, c.want.UID, c.want.Process = inode(t, c.socket), uid, process
		in, notIn := listening, established
		if c.want.State == Established {
			in, notIn = established, listening
		}
		if got := of(in, c.want.Inode); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", what, got, c.want)
		}
		if got := of(notIn, c.want.Inode); got != (Socket{}) {
			t.Errorf("%s is in the other state, too: %+v", what, got)
		}
	}
	if got := of(slices.Concat(listening, established), inode(t, connected)); got != (Socket{}) {
		t.Errorf("a connected UDP socket is there: %+v", got)
	}
	if again := look(t, 0, Listening); !slices.IsSortedFunc(again, func(a, b Socket) int {
		return strings.Compare(a.Protocol, b.Protocol)
	}) {
		t.Errorf("not in order: %v", again)
	}
	gone := inode(t, v4)
	_ = v4.Close()
	if got := of(look(t, 0, Listening), gone); got != (Socket{}) {
		t.Errorf("a closed socket is there: %+v", got)
	}
}

// within runs f on a thread that is in a network namespace of its own, where lo is
// up, with the thread's id for a process's, and ends the thread.
func within(t *testing.T, f func(tid int)) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
			t.Fatal("not root: no namespace")
		}
		t.Skip("not root: no namespace")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with the goroutine
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNET), upLoopback()); err != nil {
			t.Errorf("no namespace: %v", err)
			return
		}
		f(unix.Gettid())
	}()
	<-done
}

func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

func TestSocketsOfAnotherNetworkNamespace(t *testing.T) {
	own, err := NetworkNamespace(0)
	if err != nil {
		t.Fatal(err)
	}
	within(t, func(tid int) {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = l.Close() }()
		client, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addrPort(l.Addr())))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = client.Close() }()

		other, err := NetworkNamespace(tid)
		if err != nil || other == own {
			t.Errorf("namespace %d, %v; the test's is %d", other, err, own)
		}
		var group sync.WaitGroup
		for range 20 { // each of which may be on another thread
			group.Go(func() {
				want := Socket{
					Protocol: "tcp", State: Listening, Local: addrPort(l.Addr()), Inode: inode(t, l),
					UID: 0, Process: thisProcess(t),
				}
				if s := look(t, tid, Listening); len(s) != 1 || of(s, want.Inode) != want {
					t.Errorf("listening: %+v, want %+v alone", s, want)
				}
				// The end that nobody has accepted has no inode.
				if s := look(t, tid, Established); len(s) != 2 || of(s, inode(t, client)).Process != want.Process || of(s, 0).PID != 0 {
					t.Errorf("established: %+v", s)
				}
				if now, err := NetworkNamespace(0); err != nil || now != own {
					t.Errorf("the thread was left in the namespace %d, %v", now, err)
				}
				if s := of(look(t, 0, Listening), want.Inode); s != (Socket{}) {
					t.Errorf("it is in the test's own namespace, too: %+v", s)
				}
			})
		}
		group.Wait()
	})
}

func TestSocketsOfAProcessThatHasEnded(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if s, err := Sockets(t.Context(), pid, Listening); !errors.Is(err, fs.ErrNotExist) || s != nil {
		t.Errorf("%d: %v, %v; want that it is not there", pid, s, err)
	}
	if _, err := NetworkNamespace(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d: namespace: %v; want that it is not there", pid, err)
	}
}

func TestSocketsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Sockets(ctx, 0, Listening); !errors.Is(err, context.Canceled) || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	if err := FindProcesses(ctx, []Socket{{Inode: 1}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Of the processes that have a socket it is the one of the lowest PID, so that it is
// the same one each time.
func TestProcessOfASocketThatSeveralHave(t *testing.T) {
	l := listenTCP(t, "127.0.0.1:0")
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var pids []int
	for range 2 {
		pids = append(pids, sleepWith(t, file))
	}
	i := inode(t, l)
	if err := errors.Join(l.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if got := of(look(t, 0, Listening), i); got.PID != min(pids[0], pids[1]) || got.Command != "sleep" {
		t.Errorf("%+v is of neither %d nor %d", got, pids[0], pids[1])
	}
}

// sleepWith starts a process that has the files and does nothing.
func sleepWith(t testing.TB, files ...*os.File) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "infinity") // it ends with the test
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	return cmd.Process.Pid
}

// A kernel that refuses is told apart from one that has nothing to say.
func TestAnswersOfTheKernel(t *testing.T) {
	number := func(errno unix.Errno) []byte {
		return binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	}
	none := func(diagMessage, uint64) { t.Error("a socket was found") }
	for what, c := range map[string]struct {
		message syscall.NetlinkMessage
		done    bool
		err     error
	}{
		"the end":        {message: syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_DONE}}, done: true},
		"something else": {message: syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_NOOP}}},
		"no module":      {message: syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_ERROR}, Data: number(unix.ENOENT)}, done: true, err: errNoDiagnostics},
		"refused":        {message: syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_ERROR}, Data: number(unix.EPERM)}, done: true, err: unix.EPERM},
		"cut error":      {message: syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_ERROR}}, done: true, err: unix.EBADMSG},
	} {
		if done, err := decode([]syscall.NetlinkMessage{c.message}, none); done != c.done || !errors.Is(err, c.err) {
			t.Errorf("%s: %t, %v; want %t, %v", what, done, err, c.done, c.err)
		}
	}
	if done, err := decode([]syscall.NetlinkMessage{{Header: syscall.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY}, Data: make([]byte, 71)}}, none); !done || err == nil {
		t.Errorf("a message that is cut: %t, %v", done, err)
	}
}

func TestCgroupIDAmongAttributes(t *testing.T) {
	for what, c := range map[string]struct {
		attributes []byte
		want       uint64
	}{
		"behind another": {[]byte{5, 0, 8, 0, 9, 0, 0, 0, 12, 0, diagCgroupID, 0, 7, 7, 7, 7, 7, 7, 7, 7}, 0x0707070707070707},
		"none":           {nil, 0},
		"others alone":   {[]byte{5, 0, 8, 0, 9}, 0},
		"cut":            {[]byte{12, 0, diagCgroupID, 0, 1, 2, 0, 0, 0, 0, 0}, 0},
		"too small":      {[]byte{8, 0, diagCgroupID, 0, 1, 2, 0, 0}, 0},
		"of no size":     {[]byte{0, 0, diagCgroupID, 0}, 0},
	} {
		if got := cgroupID(c.attributes); got != c.want {
			t.Errorf("%s: %#x, want %#x", what, got, c.want)
		}
	}
}

// BenchmarkSockets looks for the processes of 2,000 sockets among 500.
func BenchmarkSockets(b *testing.B) {
	const perProcess, processes = 4, 500
	for range processes {
		files := make([]*os.File, perProcess)
		for i := range files {
			l := listenTCP(b, "127.0.0.1:0")
			file, err := l.File()
			if err != nil {
				b.Fatal(err)
			}
			files[i] = file
			_ = l.Close()
		}
		sleepWith(b, files...)
		for _, f := range files {
			_ = f.Close()
		}
	}
	b.Run("listening", func(b *testing.B) {
		for b.Loop() {
			if s, err := Sockets(b.Context(), 0, Listening); err != nil || len(s) < perProcess*processes {
				b.Fatal(len(s), err)
			}
		}
	})
	b.Run("established", func(b *testing.B) {
		for b.Loop() {
			if _, err := Sockets(b.Context(), 0, Established); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("in another namespace", func(b *testing.B) {
		for b.Loop() {
			if _, err := Sockets(b.Context(), os.Getpid(), Established); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("processes", func(b *testing.B) {
		sockets, err := Sockets(b.Context(), 0, Listening)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for i := range sockets {
				sockets[i].Process = Process{}
			}
			if err := FindProcesses(b.Context(), sockets); err != nil {
				b.Fatal(err)
			}
		}
		known := 0
		for _, s := range sockets {
			if s.PID != 0 {
				known++
			}
		}
		b.ReportMetric(float64(known), "known")
	})
}
