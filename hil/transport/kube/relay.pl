# Runs commands for a client that has the key, and carries their streams: one command a connection.
# It runs on the node, or in the pod, where @enter are the words that enter the node.
# hil.transport.kube.relay starts it and has the protocol. Needs no module that a minimal perl lacks.
use strict; use Socket; use POSIX ();
my ($idle, $longest, $at, @enter) = @ARGV;
my $key = <STDIN>; chomp $key;
socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
bind($listener, sockaddr_in($at, INADDR_ANY)) or die "bind: $!";
listen($listener, 64) or die "listen: $!";
my ($port) = sockaddr_in(getsockname($listener));
$| = 1;
pipe(my $ready, my $own);
if (my $child = fork) { close $own; <$ready>; print "$port\n"; exit 0 } # whose session ends
POSIX::setsid();
close $_ for $ready, $own;
chdir '/';
open STDIN, '<', '/dev/null'; open STDOUT, '>', '/dev/null'; open STDERR, '>', '/dev/null';
my ($born, $last, $parent) = (time, time, $$);
$ENV{PINPROOF_RELAY} = $$; # a command that ends it kills this
$SIG{CHLD} = 'IGNORE'; $SIG{PIPE} = 'IGNORE'; $SIG{USR1} = sub { $last = time };
my @serve; # processes: at most 64 at once
while (time - $last <= $idle && time - $born <= $longest) {
  my $r = ''; vec($r, fileno($listener), 1) = 1;
  next unless select($r, undef, undef, 10) > 0;
  @serve = grep { kill 0, $_ } @serve;
  sleep 1, next if @serve >= 64;
  accept(my $c, $listener) or next;
  my $pid = fork // exit 1;
  unless ($pid) { close $listener; serve($c); exit 0 }
  push @serve, $pid; close $c;
}
sub digest { # of these texts, by a program that each node has
  pipe(my $r, my $w); pipe(my $from, my $to);
  my $pid = fork;
  unless ($pid) {
    close $w; close $from;
    open STDIN, '<&', $r; open STDOUT, '>&', $to;
    exec @enter, 'sha256sum' or POSIX::_exit(1);
  }
  close $r; close $to;
  print $w $_ for @_;
  close $w;
  my $line = <$from>; close $from; waitpid($pid, 0);
  return substr($line // '', 0, 64);
}
sub all { # to the runner
  my ($c, $data) = @_;
  while (length $data) { my $n = syswrite($c, $data) // exit 1; substr($data, 0, $n) = '' }
}
sub frame { my ($c, $stream, $data) = @_; all($c, pack('CN', $stream, length $data) . $data) }
sub filled { # at least so many bytes in the buffer
  my ($c, $buffer, $size) = @_;
  while (length $$buffer < $size) { sysread($c, $$buffer, 65536, length $$buffer) or exit 1 }
}
sub serve {
  my $c = shift;
  $SIG{CHLD} = 'DEFAULT'; $SIG{USR1} = 'DEFAULT';
  alarm 30;
  my $b = '';
  while (index($b, "\r\n\r\n") < 0) { exit 1 if length $b > 16384; filled($c, \$b, 1 + length $b) }
  $b =~ s/\A.*?\r\n\r\n//s;
  open my $random, '<', '/dev/urandom' or exit 1; sysread($random, my $bytes, 32);
  my $challenge = unpack 'H*', $bytes;
  all($c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: pinproof\r\n\r\n"
    . "$challenge\n");
  while (index($b, "\n") < 0) { exit 1 if length $b > 512; filled($c, \$b, 1 + length $b) }
  $b =~ s/\A(.*?)\n//; my $said = $1;
  my ($mac, $command, $input, $sum) = $said =~ /\A([0-9a-f]{64}) (\d+) (\d+) ([0-9a-f]{64})\z/ or exit 1;
  exit 1 if digest("$key ask $challenge $command $input $sum $key") ne $mac;
  kill USR1 => $parent;
  alarm 600;
  filled($c, \$b, $command + $input);
  exit 1 if digest($b) ne $sum;
  alarm 0;
  my $text = substr $b, 0, $command; substr($b, 0, $command) = '';
  pipe(my $in_r, my $in_w); pipe(my $out_r, my $out_w); pipe(my $err_r, my $err_w);
  my $pid = fork // exit 1;
  unless ($pid) {
    open STDIN, '<&', $in_r; open STDOUT, '>&', $out_w; open STDERR, '>&', $err_w;
    close $_ for $c, $in_r, $in_w, $out_r, $out_w, $err_r, $err_w;
    $SIG{PIPE} = 'DEFAULT';
    exec @enter, '/bin/sh', '-c', $text or POSIX::_exit(127);
  }
  close $_ for $in_r, $out_w, $err_w;
  fcntl($in_w, POSIX::F_SETFL(), POSIX::O_NONBLOCK());
  my %stream = ($out_r => 1, $err_r => 2); my @open = ($out_r, $err_r);
  my ($heard, $told, $status, $kept) = (time, time, undef, '');
  close $in_w, $in_w = undef unless length $b;
  while (@open) {
    my ($r, $w) = ('', ''); vec($r, fileno($_), 1) = 1 for @open, $c;
    vec($w, fileno($in_w), 1) = 1 if $in_w;
    select($r, $w, undef, defined $status ? 0.2 : 1);
    if (vec($r, fileno($c), 1)) { sysread($c, my $more, 4096) or exit 1 }
    if ($in_w && vec($w, fileno($in_w), 1)) {
      my $n = syswrite($in_w, $b, 65536);
      if (defined $n) { substr($b, 0, $n) = '' } elsif (!$!{EAGAIN}) { $b = '' }
      close $in_w, $in_w = undef unless length $b;
    }
    my @ready = grep { vec($r, fileno($_), 1) } @open;
    for my $f (@ready) {
      if (sysread($f, my $data, 65536)) {
        my $packed = pack('CN', $stream{$f}, length $data) . $data;
        $kept .= $packed; all($c, $packed); $heard = $told = time;
      } else { @open = grep { $_ != $f } @open }
    }
    if (time - $told >= 5) { frame($c, 9, ''); $told = time }
    # A process that left the command's session may hold its stdout for ever.
    $status = $? if !defined $status && waitpid($pid, POSIX::WNOHANG()) == $pid;
    last if defined $status && time - $heard > 1;
  }
  waitpid($pid, 0), $status = $? unless defined $status;
  my $code = $status & 127 ? 128 + ($status & 127) : $status >> 8;
  frame($c, 3, "$code " . digest("$key told $challenge $code ", $kept, " $key"));
  shutdown($c, 1); alarm 5; 1 while sysread($c, my $rest, 4096);
}
