// A MySQL server by another author's implementation of the protocol, for scripts/check-mysql-login: it lets the user app in by
// caching_sha2_password, and answers each query and each prepared statement with one number. Writes its certificate to ca.pem, and
// prints its port.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"
)

// The only user. The package asks for a password in full, and caches it, only with a provider other than its own.
type users struct{}

func (users) CheckUsername(name string) (bool, error) { return name == "app", nil }

func (users) GetCredential(name string) (string, bool, error) { return "geheim", name == "app", nil }

type answers struct{ server.EmptyHandler }

func (answers) UseDB(string) error { return nil }

func (answers) HandleQuery(query string) (*mysql.Result, error) {
	if !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(query)), "SELECT") {
		return nil, nil
	}
	rows, err := mysql.BuildSimpleTextResultset([]string{"n"}, [][]interface{}{{int64(42)}})
	if err != nil {
		return nil, err
	}
	return mysql.NewResult(rows), nil
}

func (answers) HandleStmtPrepare(string) (int, int, any, error) { return 0, 1, nil, nil }

func (answers) HandleStmtExecute(any, string, []any) (*mysql.Result, error) {
	rows, err := mysql.BuildSimpleBinaryResultset([]string{"n"}, [][]any{{int64(42)}})
	if err != nil {
		return nil, err
	}
	return mysql.NewResult(rows), nil
}

func (answers) HandleStmtClose(any) error { return nil }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A key with a certificate that it signed itself, and its public half as the protocol sends it.
func keys() (tls.Certificate, []byte) {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(&key.PublicKey))})
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, public
}

func main() {
	certificate, public := keys()
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	if err := os.WriteFile("ca.pem", shown, 0o600); err != nil {
		panic(err)
	}
	secured := &tls.Config{Certificates: []tls.Certificate{certificate}}
	conf := server.NewServer("8.0.36", mysql.DEFAULT_COLLATION_ID, mysql.AUTH_CACHING_SHA2_PASSWORD, public, secured)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		socket := must(listener.Accept())
		go func() {
			conn, err := conf.NewCustomizedConn(socket, users{}, answers{})
			for err == nil && !conn.Closed() {
				err = conn.HandleCommand()
			}
		}()
	}
}
