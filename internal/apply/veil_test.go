package apply

import "testing"

// What is called like a password is not shown, whatever it is part of, nor a password in
// a URL; all else is.
func TestVeilHidesWhatIsCalledLikeAPassword(t *testing.T) {
	for line, want := range map[string]string{
		`Environment="DB_PASSWORD=a b"`:                       `Environment="DB_PASSWORD=‹withheld, value 1›"`,
		`Environment=MYSQL_PWD=a`:                             `Environment=MYSQL_PWD=‹withheld, value 1›`,
		`Environment="PGPASS=a"`:                              `Environment="PGPASS=‹withheld, value 1›"`,
		`Environment=SMTP_PASS=a OTHER=b`:                     `Environment=SMTP_PASS=‹withheld, value 1›`,
		`Environment="APP_KEY=a"`:                             `Environment="APP_KEY=‹withheld, value 1›"`,
		`Environment="DSN=postgres://u:p@ss@db:5432/x"`:       `Environment="DSN=postgres://u:‹withheld, value 1›@db:5432/x"`,
		`Exec=serve redis://:a@h/0 amqp://u:b@h`:              `Exec=serve redis://:‹withheld, value 1›@h/0 amqp://u:‹withheld, value 2›@h`,
		`ExecStart=/usr/bin/podman run --env URL=ftp://u:a@h`: `ExecStart=/usr/bin/podman run --env URL=ftp://u:‹withheld, value 1›@h`,
		`Environment="URL=https://h:8080/@x" PASSAGE=b`:       `Environment="URL=https://h:8080/@x" PASSAGE=b`,
		`Environment=DB_PASSWORD_FILE=/run/secrets/db`:        `Environment=DB_PASSWORD_FILE=/run/secrets/db`,
		`Environment="KEYBOARD=us" "BY_PASSING=1"`:            `Environment="KEYBOARD=us" "BY_PASSING=1"`,
		`Volume=data:/data`:                                   `Volume=data:/data`,
	} {
		var v veil
		if got := v.unit(line); got != want {
			t.Errorf("%s\n\tis shown as %s\n\twant %s", line, got, want)
		}
		if got := (&veil{lifted: true}).unit(line); got != line {
			t.Errorf("lifted: %s is shown as %s", line, got)
		}
	}
}
