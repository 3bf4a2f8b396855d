# Limit the waiting reservations of a user (settings waiting_reservations_per_user, unlimited_reservation_users).
# A bag of tasks counts as one.
if (job.reservation is not None or job.bag) and job.user not in settings("unlimited_reservation_users", []):
    limit = settings("waiting_reservations_per_user", 2)
    waiting = site.count_jobs(user=job.user, reservation=True, states=["Hold", "Waiting", "toAckReservation"])
    if waiting + (1 if job.bag else job.array_size) > limit:
        refuse(f"{waiting} reservations of {job.user} are waiting already, at most {limit} may")
# mypy: ignore-errors
