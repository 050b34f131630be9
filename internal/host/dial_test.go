package host

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A bus that takes a connection and never says a word does not keep anybody for
// longer than they care to wait.
func TestDialGivesUpOnABusThatIsMute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	mute, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() }) // it goes with its directory
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := Dial(ctx)
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("it is connected")
		}
	case <-time.After(10 * time.Second):
		t.Error("no end")
	}
}
