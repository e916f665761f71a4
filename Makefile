# Names for commands; what they do is in scripts/.
.PHONY: demo test lint golden install release site bench bench-load bench-tamp vmlinux

demo:        ; @QUICK="$(QUICK)" scripts/demo
test:        ; @scripts/test
lint:        ; @scripts/lint
golden:      ; @scripts/golden
install:     ; @PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" GROUP="$(GROUP)" scripts/install-program
release:     ; @scripts/release
site:        ; @scripts/site
bench:       ; @scripts/bench
bench-load:  ; @scripts/bench-load
bench-tamp:  ; @scripts/bench-tamp
vmlinux:     ; @scripts/vmlinux
