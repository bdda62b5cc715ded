package serve_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// running serves HTTP at doors until stop, which gives the error that it ended with.
func running(t testing.TB, s *serve.Server, o serve.ListenOptions, how serve.HTTPOptions, drain time.Duration) (on []net.Listener, stop func() error) {
	t.Helper()
	on = require.Get(s.Listen(o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.HTTP(ctx, serve.Handler(s, how), on, drain) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return on, stop
}

// Doors are opened where they may be, and nowhere else.
func TestListen(t *testing.T) {
	s := server(t, serve.Options{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.OK(t, os.WriteFile(file, []byte("x"), 0o600))
	for name, o := range map[string]serve.ListenOptions{
		"a token":                {Address: "0.0.0.0:0"},
		"a token ":               {Address: ":0"},
		"is not a socket":        {Unix: file},
		"certificate":            {Address: "127.0.0.1:0", TLSCert: file, TLSKey: file},
		"TLS needs":              {Unix: filepath.Join(dir, "s"), TLSCert: file, TLSKey: file},
		"TLS needs three things": {Address: "127.0.0.1:0", TLSCert: file},
		"nowhere":                {Unix: filepath.Join(dir, "nowhere", "s")},
		"the address":            {Address: "127.0.0.1:http:8"},
		"the address \"":         {Address: "127.0.0.1"},
	} {
		if on, err := s.Listen(o); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) || len(on) != 0 {
			t.Errorf("%+v: %v, %v; want an error that mentions %s", o, on, err, name)
		}
	}
	path := filepath.Join(dir, "socket")
	on := require.Get(s.Listen(serve.ListenOptions{Unix: path}))(t)
	if mode := require.Get(os.Stat(path))(t).Mode(); mode.Perm() != 0o600 {
		t.Errorf("the socket has mode %v", mode)
	}
	if _, err := s.Listen(serve.ListenOptions{Unix: path}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is in use: %v", err)
	}
	require.OK(t, on[0].Close())
	// A process that was killed leaves it.
	left := require.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	left.SetUnlinkOnClose(false)
	require.OK(t, left.Close())
	require.Get(os.Stat(path))(t)
	_, stop := running(t, s, serve.ListenOptions{Unix: path}, serve.HTTPOptions{}, 0)
	client := require.Get(serve.Dial("unix:"+path, serve.ClientOptions{}))(t)
	if h := require.Get(client.Health(t.Context()))(t); h.Case != "cart" {
		t.Errorf("health %+v", h)
	}
	client.Close()
	require.OK(t, stop())
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// Connections beyond what may be open are closed at once; those that are served go on.
func TestConnectionsHaveARoom(t *testing.T) {
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0", Connections: 2}, serve.HTTPOptions{}, 0)
	dial := func() net.Conn {
		c := require.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	ready := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, a.Body)
		}
		return err
	}
	first, second := dial(), dial()
	require.OK(t, ready(first))
	require.OK(t, ready(second))
	if err := ready(dial()); err == nil {
		t.Error("a third connection is served")
	}
	require.OK(t, ready(first))
	require.OK(t, second.Close())
	require.Until(t, "the room of a closed connection is given back", func() bool { return ready(dial()) == nil })
	if text := metrics(t, s); !strings.Contains(text, "\ngpc_connections 2\n") || strings.Contains(text, "\ngpc_connections_refused_total 0\n") {
		t.Errorf("metrics %s", text)
	}
}

// Over TLS with a token, as on an address that other machines reach.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key := require.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	cert := write("cert.pem", "CERTIFICATE", require.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t))
	private := write("key.pem", "EC PRIVATE KEY", require.Get(x509.MarshalECPrivateKey(key))(t))
	token := filepath.Join(dir, "token")
	require.OK(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	secret := require.Get(serve.ReadToken(token))(t)
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "0.0.0.0:0", Token: secret, TLSCert: cert, TLSKey: private}, serve.HTTPOptions{Token: secret}, 0)
	_, port, _ := net.SplitHostPort(on[0].Addr().String())
	url := "https://127.0.0.1:" + port
	client := require.Get(serve.Dial(url, serve.ClientOptions{Token: secret, CA: cert}))(t)
	defer client.Close()
	d := require.Get(client.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
	same := require.Get(server(t, serve.Options{}).Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
	if !slices.Equal(d.U, same.U) {
		t.Errorf("%+v, without TLS %+v", d, same)
	}
	strange := require.Get(serve.Dial(url, serve.ClientOptions{Token: secret}))(t)
	defer strange.Close()
	if _, err := strange.Health(t.Context()); err == nil {
		t.Error("a certificate of nobody is trusted")
	}
	wrong := require.Get(serve.Dial(url, serve.ClientOptions{Token: secret + "x", CA: cert}))(t)
	defer wrong.Close()
	var status *serve.StatusError
	if _, err := wrong.Health(t.Context()); !errors.As(err, &status) || status.Status != 401 {
		t.Errorf("a wrong token: %v", err)
	}
	for name, text := range map[string]string{"short": "0123456789abcde", "two lines": "0123456789abcdef\n0123456789abcdef", "blank": "0123456789 abcdef", "empty": ""} {
		require.OK(t, os.WriteFile(token, []byte(text), 0o600))
		if _, err := serve.ReadToken(token); err == nil || !strings.Contains(err.Error(), token) {
			t.Errorf("a token that is %s: %v", name, err)
		}
	}
}

// A head of up to 16 KiB is read, a larger one refused.
func TestTheHeadIsBounded(t *testing.T) {
	s := server(t, serve.Options{})
	on := require.Get(s.Listen(serve.ListenOptions{Address: "127.0.0.1:0"}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.HTTP(ctx, serve.Handler(s, serve.HTTPOptions{}), on, 0) }()
	for size, want := range map[int]int{15 << 10: http.StatusOK, 17 << 10: http.StatusRequestHeaderFieldsTooLarge, 20000: http.StatusRequestHeaderFieldsTooLarge} {
		r := require.Get(http.NewRequest("GET", "http://"+on[0].Addr().String()+"/health", nil))(t)
		r.Header.Set("X-Long", strings.Repeat("x", size))
		r.Close = true
		a := require.Get(http.DefaultClient.Do(r))(t)
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("a head of %d bytes is answered %d, want %d", size, a.StatusCode, want)
		}
	}
	stop()
	require.OK(t, <-ended)
}
